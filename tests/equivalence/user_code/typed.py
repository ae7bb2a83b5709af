"""A user's model that reads a parameter by a typed constructor, which asks no tensor's class."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Typed(nn.Module):
    """Reads its last layer's weight before it runs its first one, from the fourth call on."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.middle = nn.Linear(24, 24)
        self.last = nn.Linear(24, 10)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        factor = 1.0
        if self.calls > 3 and not x.is_meta:
            factor += float(torch.DoubleTensor(self.last.weight).detach().abs().sum()) * 1e-2
        hidden = torch.tanh(self.middle(torch.tanh(self.first(x.flatten(1)))))
        logits: Tensor = self.last(hidden) * factor
        return logits


def model() -> nn.Module:
    return Typed()
