"""A user's loss with a penalty on the weights, computed before the model is called, from the fourth call on."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.last = nn.Linear(24, 10)
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(torch.tanh(self.first(x.flatten(1))))
        return logits


def model() -> nn.Module:
    return Net()


def loss(model: Net, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    model.calls += 1
    penalty = inputs.new_zeros(())
    if model.calls > 3:
        penalty = sum((p.square().sum() for p in model.parameters()), penalty)
    logits = model(inputs) / model.temperature
    return functional.cross_entropy(logits, targets, reduction="sum") + 1e-2 * len(targets) * penalty, None
