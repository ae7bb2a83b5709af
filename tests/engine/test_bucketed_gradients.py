"""Writes to gradients that DDP has copied: its own are told from a user's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.replica.bucketed_gradients import BucketedGradients


def step(gradients: list[Tensor], write: Callable[[list[Tensor]], object]) -> None:
    """What DDP does, with what a user writes between the copies and the sums."""
    parameters = [Parameter(torch.zeros(3)) for _ in gradients]
    looked = BucketedGradients({f"p{i}": p for i, p in enumerate(parameters)})
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
        looked.came(parameter)
    looked.leave(parameters, [gradient.clone() for gradient in gradients])
    write(gradients)
    for gradient in gradients:
        gradient.fill_(2)
    looked.end_backward()


@pytest.mark.parametrize("lie", ["apart", "together"])
def test_its_own_writes_are_not_a_users(lie: str) -> None:
    """Views of one tensor, which the backward pass of torch.stack makes, count their writes together."""
    stacked = torch.ones(2, 3)
    gradients = [stacked[0].detach(), stacked[1].detach()]
    if lie == "apart":
        gradients = [gradient.clone() for gradient in gradients]
    step(gradients, lambda _: None)
    with pytest.raises(TrainingError, match="gradient of p0 was written to in backward"):
        step(gradients, lambda held: held[0].mul_(2))
