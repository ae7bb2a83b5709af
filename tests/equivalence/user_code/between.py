"""A user's model that writes to its first layer from the fifth pass on, and a loss of two passes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Net(nn.Module):
    """Of the first layer, backward needs no weight: nobody asks for a gradient by the model's inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.last = nn.Linear(24, 10)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 4:
            with torch.no_grad():
                self.first.weight.sub_(0.1 * self.first.weight.mean())
        logits: Tensor = self.last(torch.tanh(self.first(x.flatten(1))))
        return logits


def model() -> nn.Module:
    return Net()


def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    first, second = model(inputs), model(inputs)
    return functional.cross_entropy(first + second.square(), targets, reduction="sum"), None
