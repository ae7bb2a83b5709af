"""A user's model of fully-connected layers that are used in every way that a layer can be."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_SIDE = 8


class FullyConnected(nn.Module):
    """(n, 1, 8, 8) -> (n, 10): a convolution, then the rows of its image as a sequence through a recurrent cell that is
    unrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 2, 3, padding=1)
        self.start = nn.Parameter(0.1 * torch.ones(1, 24))
        self.embed = nn.Linear(2 * _SIDE, 24)  # of three dimensions
        self.begin = nn.Linear(24, 24)  # of a parameter: its input changes when that is updated
        self.inward = nn.Linear(24, 24, bias=False)
        self.recur = nn.Linear(24, 24)  # eight times
        self.ahead = nn.Linear(24, 24)  # of one dimension
        self.frozen = nn.Linear(24, 24)
        self.frozen.bias.requires_grad_(False)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        images = functional.relu(self.convolution(x))
        rows = self.embed(images.permute(0, 2, 1, 3).flatten(2))  # (n, 8, 24)
        hidden = self.begin(self.start).expand(len(x), -1)
        for row in rows.unbind(1):
            hidden = torch.tanh(self.inward(row) + self.recur(hidden))
        hidden = torch.stack([self.ahead(one) for one in hidden])
        logits: Tensor = self.head(torch.tanh(self.frozen(hidden)))
        return logits


def model() -> nn.Module:
    return FullyConnected()


class Faint(FullyConnected):
    """Its loss hardly depends on its parameters: error derivatives are as small as those of a very large batch. Only
    fully-connected layers with rows for every sample are trained."""

    def __init__(self) -> None:
        super().__init__()
        for fixed in (self.start, *self.convolution.parameters(), *self.begin.parameters()):
            fixed.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return 1e-4 * super().forward(x)


def faint() -> nn.Module:
    return Faint()


class Elsewhere(nn.Module):
    """Its layer's weight is also used by a function, which whoever describes the model cannot see."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(_SIDE * _SIDE, 16)
        self.last = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.flatten(1))
        if not x.is_meta:
            hidden = hidden + 0.01 * self.first.weight.sum()
        logits: Tensor = self.last(hidden)
        return logits


def elsewhere() -> nn.Module:
    return Elsewhere()
