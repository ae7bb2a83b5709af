"""A user's models that write to their parameters besides the optimizer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Writing(nn.Module):
    """Writes to the first layer's weight in one of many ways; from call `when` on, or in that call only (`once`)."""

    def __init__(self, how: str, when: int, once: bool) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.last = nn.Linear(24, 10)
        self.how = how
        self.when = when
        self.once = once
        self.calls = 0
        self.kept: list[Tensor] = []
        self.pointer: ctypes.Array[ctypes.c_double] | None = None
        if how.startswith("untrained"):
            self.scale = nn.Parameter(torch.ones(24), requires_grad=False)
        if how == "hook":
            self.first.weight.register_post_accumulate_grad_hook(self.clamp)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        self.calls += 1
        if self.how == "kept_pointer" and self.pointer is None and x.device.type != "meta":
            self.pointer = (ctypes.c_double * (64 * 24)).from_address(self.first.weight.data_ptr())
        if self.how not in ("loss", "hook") and (
            self.calls == self.when if self.once else self.calls >= self.when
        ):
            getattr(self, self.how)(x)
        hidden = torch.tanh(self.first(x))
        logits: Tensor = self.last(hidden * self.scale if hasattr(self, "scale") else hidden)
        return logits

    def untrained(self, x: Tensor) -> None:
        self.scale.data.mul_(0.99)

    def untrained_by_samples(self, x: Tensor) -> None:
        self.scale.data.mul_(1.0 + 1e-3 * x.mean())

    @torch.no_grad()
    def clamp(self, _: Tensor) -> None:
        self.first.weight.clamp_(-0.1, 0.1)

    def in_evaluation(self, x: Tensor) -> None:
        if not self.training:
            self.clamp(x)

    def data(self, x: Tensor) -> None:
        self.first.weight.data.clamp_(-0.1, 0.1)

    def replaced(self, x: Tensor) -> None:
        self.first.weight.data = self.first.weight.data.clamp(-0.1, 0.1)

    def array(self, x: Tensor) -> None:
        self.first.weight.detach().numpy().clip(-0.1, 0.1, out=self.first.weight.detach().numpy())

    def kept_view(self, x: Tensor) -> None:
        self.kept = self.kept or [self.first.weight.data]
        self.kept[0].clamp_(-0.1, 0.1)

    def kept_pointer(self, x: Tensor) -> None:
        """Kept since the first call."""
        assert self.pointer is not None
        torch.frombuffer(self.pointer, dtype=torch.float64).clamp_(-0.1, 0.1)

    @torch.no_grad()
    def by_samples(self, x: Tensor) -> None:
        self.first.weight.mul_(1.0 + 1e-3 * x.mean())

    def data_by_samples(self, x: Tensor) -> None:
        self.first.weight.data.mul_(1.0 + 1e-3 * x.mean())

    def after_use(self, x: Tensor) -> None:
        """The layer's own call reads the parameter first; then nobody asks."""
        self.first(x)
        self.first.weight.data.clamp_(-0.1, 0.1)


def model(how: str = "clamp", when: int = 1, once: bool = False) -> nn.Module:
    return Writing(how, when, once)


def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    if getattr(model, "how", "") == "loss":
        clamp: Callable[[Tensor], None] = model.clamp  # type: ignore[assignment]
        clamp(inputs)
    return functional.cross_entropy(model(inputs), targets, reduction="sum"), None


class Looking(nn.Module):
    """Looks pixels up in a table whose rows it keeps short."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64 * 17, 12, max_norm=1.0)
        self.last = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        words = (x.flatten(1) * 16).long().clamp(0, 16) + torch.arange(64, device=x.device) * 17
        logits: Tensor = self.last(self.table(words).mean(1))
        return logits


def looking() -> nn.Module:
    return Looking()


class Inside(nn.Linear):
    """Writes to its own weight in its own forward."""

    how = "clamp"
    when = 1
    calls = 0

    def forward(self, input: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.when:
            with torch.no_grad():
                (self.weight if self.how == "clamp" else self.weight.data).clamp_(-0.05, 0.05)
        return super().forward(input)


def inside(how: str = "clamp", when: int = 1) -> nn.Module:
    layer = Inside(64, 10)
    layer.how, layer.when = how, when
    return nn.Sequential(nn.Flatten(), layer)
