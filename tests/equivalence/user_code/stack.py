"""A user's model of as many small equal layers as a test has choices to give."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 10


class Stack(nn.Module):
    """(n, 1, 8, 8) -> (n, 10). Layers of 110 parameters each, added to what passes them by."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.flatten(1)[:, : 6 * WIDTH].unflatten(1, (6, WIDTH)).sum(1)
        for layer in self.layers:
            hidden = hidden + 0.2 * torch.tanh(layer(hidden))
        return hidden


def build(depth: int) -> nn.Module:
    return Stack(depth)
