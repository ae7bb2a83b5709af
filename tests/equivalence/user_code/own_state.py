"""A user's models whose modules have modes and buffers of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class OwnState(nn.Module):
    """(n, 1, 8, 8) -> (n, 10): frozen batch statistics, and buffers of every kind, replaced and written to in place."""

    mean: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.frozen = nn.BatchNorm1d(16)
        self.frozen.eval()  # as pretrained statistics are kept
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.9).eval()
        self.last = nn.Linear(16, 10)
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("any_positive", torch.zeros((), dtype=torch.bool))
        self.register_buffer("nothing", None)
        self.register_buffer("turning", torch.ones(3, dtype=torch.complex64))
        self.register_buffer("brief", torch.zeros(3, dtype=torch.bfloat16), persistent=False)
        self.register_buffer("eight_bits", torch.ones(3).to(torch.float8_e4m3fn))
        self.register_buffer("wide", torch.ones(4).expand(3, 4))
        self.register_buffer("empty", torch.zeros(0, 5))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.shared = nn.Module()
        self.shared.register_buffer("count", self.count)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.frozen(self.first(x.flatten(1))))
        hidden = self.dropout(torch.tanh(self.norm(hidden)))
        self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(0)
        self.any_positive = self.any_positive | (self.mean.sum() > 0)
        self.turning = self.turning * 1j
        self.brief += 1
        self.count += 1 if self.training else 100
        if self.count >= 3 and not hasattr(self, "late"):
            self.register_buffer("late", torch.zeros_like(self.mean))
        if hasattr(self, "late"):
            self.late = self.late + self.mean
            hidden = hidden + self.late
        logits: Tensor = self.last(hidden - self.mean)
        return logits


def build() -> nn.Module:
    return OwnState()


class Convolutional(nn.Module):
    """Its normalization's statistics are frozen, and the second one's are not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.frozen = nn.BatchNorm2d(4).eval()
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.frozen_too = nn.BatchNorm2d(4).eval()
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.frozen(self.first(x)))
        hidden = functional.relu(self.norm(self.frozen_too(self.second(hidden))))
        logits: Tensor = self.last(hidden.flatten(1))
        return logits


def convolutional() -> nn.Module:
    return Convolutional()


class FrozenByTrain(Convolutional):
    """Its own `train()` freezes the statistics and parameters of all normalizations."""

    def train(self, mode: bool = True) -> FrozenByTrain:
        super().train(mode)
        for norm in (self.frozen, self.frozen_too, self.norm):
            norm.eval().requires_grad_(False)
        return self


def frozen_by_train(called: bool = False) -> nn.Module:
    """Built as people build it, or `train()` already `called`, as a training loop does."""
    model = FrozenByTrain()
    return model.train() if called else model


def left_in_evaluation(called: bool = False) -> nn.Module:
    """As what was loaded for use comes; or `train()` already `called`."""
    return Convolutional().train(called)


class FailsToTrain(nn.Linear):
    def train(self, mode: bool = True) -> FailsToTrain:
        raise ValueError(f"no mode {mode} here")


def fails_to_train() -> nn.Module:
    return FailsToTrain(64, 10)


class Versioned(nn.Linear):
    """Keeps what is no tensor beside its parameters."""

    def get_extra_state(self) -> dict[str, Any]:
        return {"version": 2}

    def set_extra_state(self, state: Any) -> None:
        assert state == {"version": 2}


def versioned() -> nn.Module:
    first = nn.Linear(64, 16)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), Versioned(16, 16), nn.Tanh(), Versioned(16, 10))


def synchronized() -> nn.Module:
    """As people make a model ready for several GPUs."""
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16, affine=False), nn.Tanh(), nn.Linear(16, 10)
    )
    return nn.SyncBatchNorm.convert_sync_batchnorm(model)
