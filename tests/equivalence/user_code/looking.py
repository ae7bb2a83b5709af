"""A user's model that looks at its gradients in forward: between the micro-batches of a step there are some."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_WIDTH = 16


class Looking(nn.Module):
    """Scales what it computes by a gradient of the step so far, which its later micro-batches have; sometimes takes one
    away."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, _WIDTH)
        self.looked_at = nn.Linear(_WIDTH, _WIDTH)
        self.taken_away = nn.Linear(_WIDTH, _WIDTH)
        self.last = nn.Linear(_WIDTH, 10)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x.flatten(1)))
        self.calls += self.training
        if self.calls > 4 and self.looked_at.weight.grad is not None:
            h = h * (1 + torch.tanh(self.looked_at.weight.grad.sum()))
        if self.calls > 8:
            self.taken_away.bias.grad = None
        logits: Tensor = self.last(torch.tanh(self.taken_away(torch.tanh(self.looked_at(h)))))
        return logits


def looking() -> nn.Module:
    return Looking()
