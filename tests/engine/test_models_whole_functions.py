"""A user's own torch.autograd.Function in a model that is cut."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.inputs.task import classification
from engine.models.cut import cut, find_cuts

INPUTS = torch.randn(2, 4)


class Rounds(torch.autograd.Function):
    """Its backward is not what its forward's own operations have."""

    @staticmethod
    def forward(_: Any, value: Tensor, step: float) -> Tensor:
        return (value / step).round() * step

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Any:
        return 0.5 * gradient, None


class Coarse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.third(Rounds.apply(self.second(Rounds.apply(self.first(x), 0.5)), 0.25))
        return found


def test_a_users_own_function_keeps_its_backward() -> None:
    net, before = Coarse(), vars(torch.autograd.Function)["apply"]
    offered = find_cuts(net, INPUTS, torch.zeros(2, dtype=torch.int64), classification)
    assert [c.layer for c in offered if not c.refused] == ["second", "third"]
    assert vars(torch.autograd.Function)["apply"] is before
    net(INPUTS).square().sum().backward()
    wanted = {name: parameter.grad for name, parameter in net.named_parameters()}
    for place in ("second", "third"):
        net.zero_grad()
        parts = cut(net, place)
        parts.back(parts.front(INPUTS)).square().sum().backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, wanted[name]), name
