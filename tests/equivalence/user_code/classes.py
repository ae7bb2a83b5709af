"""A user's model that asks of its parameters which class they are: by identity, equality and in a dictionary."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Weight(nn.Parameter):
    """So that no other module of the tests asks for this class."""


class Linear(nn.Linear):
    """Its weight is a `Weight`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.weight = Weight(self.weight.detach())


class Asking(nn.Module):
    """Its output depends on the values, and between the micro-batches of a step on the gradients, of those parameters
    that are of the class in question."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layers = nn.Sequential(Linear(64, 24), nn.Tanh(), Linear(24, 24), nn.Tanh(), Linear(24, 10))

    def forward(self, x: Tensor) -> Tensor:
        asked = {
            "identity": lambda p: type(p) is Weight,
            "equality": lambda p: type(p) == Weight,  # noqa: E721
            "membership": lambda p: type(p) in (Weight, nn.Embedding),
            "key": lambda p: {Weight: True}.get(type(p), False),
        }[self.how]
        ours = [p for p in self.parameters() if asked(p)]
        norm = torch.stack([p.detach().square().sum() for p in ours]).sum() if ours else torch.zeros(())
        grads = [p.grad for p in ours if p.grad is not None]
        steep = torch.stack([g.sum() for g in grads]).sum() if grads else torch.zeros(())
        logits: Tensor = self.layers(x.flatten(1))
        return logits * (1 + 1e-2 * norm.to(x.dtype)) + torch.tanh(steep.to(x.dtype))


def asking(how: str) -> nn.Module:
    return Asking(how)
