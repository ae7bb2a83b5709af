"""Models that are cut, and what the cutter says of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.inputs.task import classification
from engine.models.cut import Parts, find_cuts

INPUTS = torch.randn(2, 4)


class Shaped(nn.Module):
    """Two layers, and what the forward pass does with them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)


def offered(net: nn.Module, inputs: Tensor, task: Any = classification) -> dict[str, str]:
    """Layer -> why the model cannot be cut there, or nothing."""
    return {c.layer: c.refused for c in find_cuts(net, inputs, torch.zeros(2, dtype=torch.int64), task)}


def whole(parts: Parts, inputs: Tensor) -> Any:
    return parts.back(parts.front(inputs))
