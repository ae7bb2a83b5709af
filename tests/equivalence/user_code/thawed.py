"""A user's models with a layer that is trained later on, as people tune a network that was trained before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

BEGINS = 2


class Thawed(nn.Module):
    """(n, 1, 8, 8) -> (n, 10). The layer in the middle is trained from step BEGINS on; until then it is frozen, from
    the beginning (`built`), or by forward alone."""

    step: Tensor

    def __init__(self, built: bool) -> None:
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.middle = nn.Linear(16, 16).requires_grad_(not built)
        self.last = nn.Linear(16, 10)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.middle.requires_grad_(int(self.step) >= BEGINS)
            self.step += 1
        logits: Tensor = self.last(torch.tanh(self.middle(torch.tanh(self.first(x.flatten(1))))))
        return logits


def model(built: bool = True) -> nn.Module:
    return Thawed(built)


def _thaw(module: nn.Module, inputs: Any) -> None:
    if torch.is_grad_enabled() and not inputs[0].is_meta:
        module.requires_grad_(True)


def by_hook() -> nn.Module:
    """That can be cut: a hook on a module of PyTorch's own thaws it in the first training pass."""
    inner = [each for _ in range(3) for each in (nn.Linear(16, 16), nn.Tanh())]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), *inner, nn.Linear(16, 10))
    net[5].requires_grad_(False).register_forward_pre_hook(_thaw)
    return net
