"""What is in no plan is not trained: neither what was frozen when a model was built, nor what it adds later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from engine.errors import TrainingError
from engine.replica.outside import Outside


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


@pytest.fixture
def outside(model: nn.Sequential) -> Iterator[Outside]:
    model[0].requires_grad_(False)
    watching = Outside(model)
    yield watching
    watching.close()


def test_who_thaws_what_is_in_no_plan_is_told(model: nn.Sequential, outside: Outside) -> None:
    model[1].requires_grad_(False)
    outside.check(0)
    model[1].requires_grad_(True)
    outside.check(1)
    model[0].weight.requires_grad_(True)
    with pytest.raises(
        TrainingError, match=r"0\.weight was frozen when the model was built.* step 2.*freeze it in forward"
    ):
        outside.check(2)


@pytest.mark.parametrize(
    ("add", "name"),
    [
        (lambda model: model.append(nn.Linear(2, 2)), r"2\.weight"),
        (lambda model: setattr(model[1], "scale", nn.Parameter(torch.ones(2))), r"1\.scale"),
    ],
    ids=["module", "parameter"],
)
def test_what_a_model_adds_while_it_trains_is_refused(
    model: nn.Sequential, outside: Outside, add: Callable[[nn.Module], object], name: str
) -> None:
    outside.check(0)
    add(model)
    with pytest.raises(
        TrainingError, match=rf"the model has {name} only since step 3.*Create it in __init__"
    ):
        outside.check(3)


def test_what_nobody_trains_may_come_and_go(model: nn.Sequential, outside: Outside) -> None:
    model[1].weight = nn.Parameter(torch.ones(2, 2))  # under a name that the plan has
    model[1].register_buffer("seen", torch.ones(2))
    model.append(nn.Linear(2, 2).requires_grad_(False))
    outside.check(1)
    model.append(nn.Linear(2, 2))
    del model[3]
    outside.check(2)
