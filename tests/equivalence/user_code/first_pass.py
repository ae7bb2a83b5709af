"""A user's model that does more in its first pass than in the others."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LooksOnce(nn.Module):
    """Computes with a list of its parameters once, which torch.fx would keep the result of."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.last = nn.Linear(256, 10)
        self.scale: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = float(torch.stack([p.detach().abs().mean() for p in self.parameters()]).sum())
        logits: Tensor = self.last(torch.tanh(self.first(x)).flatten(1)) / self.scale
        return logits


def build() -> nn.Module:
    return LooksOnce()
