"""A user's model that sorts its parameters by their class, with a helper that knows nothing of PyTorch."""

from __future__ import annotations

from collections import defaultdict

import torch
from grouping import same
from torch import Tensor, nn


class Grouped(nn.Module):
    """Its output depends on the values of its parameters of one class, which forward looks for before it uses them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.wanted = nn.Parameter
        self.layers = nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))

    def forward(self, x: Tensor) -> Tensor:
        groups: dict[type, list[nn.Parameter]] = defaultdict(list)
        for p in self.parameters():
            groups[type(p)].append(p)
        if self.how == "keys":
            ours = [p for kind, group in groups.items() if same(kind, self.wanted) for p in group]
        else:
            last = self.layers[2].bias
            ours = [p for p in self.parameters() if same(p.__class__, last.__class__)]
        norm = torch.stack([p.detach().square().sum() for p in ours]).sum() if ours else torch.zeros(())
        logits: Tensor = self.layers(x.flatten(1))
        return logits * (1 + 1e-2 * norm.to(x.dtype))


def model(how: str) -> nn.Module:
    return Grouped(how)
