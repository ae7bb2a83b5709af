"""What a loss may ask of a model that is cut: the inputs are not where it is computed, nor is all of the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.errors import UserError
from engine.inputs.task import BatchLoss
from engine.models.cannot_cut import CannotCutError
from engine.models.cut import ELSEWHERE, Rest
from tests.cuts import INPUTS, Shaped, offered


class Around(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.third(self.second(hidden) + hidden)


def test_a_loss_that_looks_at_the_inputs_is_refused() -> None:
    def looks(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(inputs).sum() + inputs.sum(), None)

    def changes(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(torch.relu(inputs)).sum(), None)

    def divides(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(inputs / 255).sum(), None)

    def penalizes(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return looks(net, inputs, targets) if torch.is_grad_enabled() else BatchLoss(net(inputs).sum(), None)

    def evaluates(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(inputs).sum(), None) if torch.is_grad_enabled() else looks(net, inputs, targets)

    for task in (looks, changes, divides, penalizes, evaluates):
        with pytest.raises(CannotCutError, match="the loss looks at the inputs"):
            offered(Around(), INPUTS, task)
    with pytest.raises(UserError, match="looks at the inputs"):
        Rest(nn.Identity())(INPUTS)
    rest = Rest(nn.Identity())
    rest.activation = INPUTS
    assert rest(ELSEWHERE) is INPUTS


def test_a_loss_may_ask_in_which_mode_the_model_is() -> None:
    def evaluates(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        total = net(inputs).sum()
        return BatchLoss(total, None) if net.training else BatchLoss(total + inputs.sum(), None)

    back = nn.Linear(4, 4)
    rest = Rest(back)
    assert rest.training
    back.eval()
    assert not rest.training
    with pytest.raises(CannotCutError, match="the loss looks at the inputs"):
        offered(Around(), INPUTS, evaluates)


def test_a_loss_that_looks_at_the_model_is_refused() -> None:
    def penalized(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(inputs).sum() + sum(p.square().sum() for p in net.parameters()), None)

    def cooled(net: Any, inputs: Tensor, targets: Tensor) -> BatchLoss:
        return BatchLoss(net(inputs).sum() / net.first.weight.norm(), None)

    for task, asked in ((penalized, "named_parameters"), (cooled, "first")):
        with pytest.raises(CannotCutError, match=f"the loss asks the model for '{asked}'"):
            offered(Around(), INPUTS, task)
