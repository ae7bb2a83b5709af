"""A user's models that change while they train: what they have moves, or something comes that they had not."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

CHANGES_IN = 3


class Changing(nn.Module):
    """(n, 1, 8, 8) -> (n, 10). Counts its passes in training."""

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 12)
        self.second: nn.Module = nn.Linear(12, 12)
        self.last = nn.Linear(12, 10)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def change(self) -> None:
        """What happens in the pass CHANGES_IN."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            if int(self.step) == CHANGES_IN:
                self.change()
            self.step += 1
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x.flatten(1))))))


class Pruned(Changing):
    def change(self) -> None:
        prune.l1_unstructured(self.last, "weight", amount=0.3)


class Wrapped(Changing):
    def change(self) -> None:
        self.second = nn.Sequential(self.second, nn.Tanh())


class Replaced(Changing):
    def change(self) -> None:
        self.second = nn.Linear(12, 12).to(self.first.weight.dtype)
