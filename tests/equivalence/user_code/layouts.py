"""A user's models whose parameters or gradients do not lie in memory as simple engines expect."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class ChannelsLast(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10); 4-d parameters, activations and gradients are channels_last, a weight transposed."""

    def __init__(self) -> None:
        last = nn.Linear(48, 10)
        last.weight.data = last.weight.data.t().contiguous().t()
        super().__init__(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 12, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            last,
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = super().forward(x.contiguous(memory_format=torch.channels_last))
        return logits


def channels_last() -> nn.Module:
    model: nn.Module = ChannelsLast()
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class Counting(nn.Sequential):
    """Counts its samples in a buffer that two modules share; keeps complex numbers, as rotary embeddings do."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.register_buffer("seen", torch.zeros(()))
        self[1].register_buffer("seen", self.seen)
        self.register_buffer("turns", torch.tensor([0.5 + 1.0j, -2.0j]))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen += len(x)
        logits: Tensor = super().forward(x)
        return logits


def counting() -> nn.Module:
    return Counting()


class Sparse(nn.Module):
    """Gray levels as words: an embedding with sparse gradients, which its layer says or only its forward pass, summed
    over the image."""

    def __init__(self, said: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 10, sparse=said)

    def forward(self, x: Tensor) -> Tensor:
        levels = (x.flatten(1).clamp(0, 1) * 16).long()
        return functional.embedding(levels, self.embed.weight, sparse=True).sum(1)


def sparse(said: bool) -> nn.Module:
    return Sparse(said)
