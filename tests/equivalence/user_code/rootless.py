"""A user's loss that never calls the model as a whole, and uses a parameter outside of every module."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Rootless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(64))
        self.body = nn.Linear(64, 10)


def model() -> nn.Module:
    return Rootless()


def loss(model: Rootless, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    logits = model.body(inputs.flatten(1) + model.shift)
    return functional.cross_entropy(logits, targets, reduction="sum"), None
