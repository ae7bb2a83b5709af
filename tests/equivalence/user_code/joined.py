"""A user's models whose parameters are joined before they are used, so that their gradients are views of one tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Fused(nn.Module):
    """Query, key and value are three layers, and one product."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.last = nn.Linear(64, 24), nn.Linear(24, 10)
        self.parts = nn.ModuleList(nn.Linear(24, 8) for _ in range(3))
        self.seen: list[Tensor] = []
        if how == "view kept":
            self.parts[1].weight.register_post_accumulate_grad_hook(self._keep)

    def _keep(self, parameter: Tensor) -> None:
        assert parameter.grad is not None
        self.seen = [parameter.grad.view(-1)]

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x.flatten(1)))
        weights, biases = [part.weight for part in self.parts], [part.bias for part in self.parts]
        if self.how == "stack":
            bias = torch.stack(biases, 1).flatten()
            x = functional.linear(x, torch.stack(weights, 1).flatten(0, 1), bias)
        else:
            x = functional.linear(x, torch.cat(weights), torch.cat(biases))
        query, key, value = x.chunk(3, -1)
        logits: Tensor = self.last(torch.cat([query, key * query, torch.tanh(value)], -1))
        if self.seen:
            logits = logits * (1 + 1e-2 * torch.tanh(self.seen.pop().sum()))
        return logits


def fused(how: str) -> nn.Module:
    return Fused(how)
