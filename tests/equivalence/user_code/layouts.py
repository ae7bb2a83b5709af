"""A user's models whose parameters or gradients do not lie in memory as simple engines expect."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ChannelsLast(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10) with 4-d parameters, activations and gradients in channels_last layout."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 12, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(48, 10),
        )
        self.to(memory_format=torch.channels_last)
        self[6].weight.data = self[6].weight.data.t().contiguous().t()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.contiguous(memory_format=torch.channels_last))


def channels_last() -> nn.Module:
    return ChannelsLast()


class Sparse(nn.Module):
    """Gray levels as words: an embedding with sparse gradients, summed over the image."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 10, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        levels = (x.flatten(1).clamp(0, 1) * 16).long()
        logits: Tensor = self.embed(levels).sum(1)
        return logits


def sparse() -> nn.Module:
    return Sparse()
