"""A user's model whose layers have a gradient in some steps, on some workers, or never."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 10


class Block(nn.Module):
    """Layers of 110 parameters each, added to what passes them by."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Linear(WIDTH, WIDTH)
        self.by_data = nn.Linear(WIDTH, WIDTH)
        self.never = nn.Linear(WIDTH, WIDTH)
        self.frozen_later = nn.Linear(WIDTH, WIDTH)
        self.thawed_later = nn.Linear(WIDTH, WIDTH)
        self.partly = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, step: int) -> Tensor:
        """`hidden` (n, width)."""
        self.frozen_later.requires_grad_(step < 2)
        self.thawed_later.requires_grad_(step >= 2)
        self.partly.weight.requires_grad_(step % 2 == 0)
        used = [self.always, self.frozen_later, self.thawed_later, self.partly]
        if float(hidden[0].detach().sum()) > 0:
            used.append(self.by_data)
        for layer in used:
            hidden = hidden + 0.2 * torch.tanh(layer(hidden))
        return hidden


class Absent(nn.Module):
    """(n, 1, 8, 8) -> (n, 10)."""

    step: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.flatten(1)[:, : 6 * WIDTH].unflatten(1, (6, WIDTH)).sum(1)
        for block in self.blocks:
            hidden = block(hidden, int(self.step))
        self.step += 1 if self.training else 0
        return hidden


def build(depth: int) -> nn.Module:
    return Absent(depth)
