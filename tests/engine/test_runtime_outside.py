"""What is in no plan is not trained: neither what was frozen when a model was built, nor what it adds later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from engine.errors import TrainingError
from engine.replica.outside import Outside


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


@pytest.fixture
def outside(model: nn.Sequential) -> Outside:
    model[0].requires_grad_(False)
    return Outside(model)


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


def late(module: nn.Module) -> None:
    """Not by any method that a hook could see."""
    module._parameters["late"] = nn.Parameter(torch.ones(2))


@pytest.mark.parametrize(
    ("add", "name"),
    [
        (lambda model: model.append(nn.Linear(2, 2)), r"2\.weight"),
        (lambda model: model.insert(0, nn.Linear(2, 2)), r"0\.weight"),
        (lambda model: setattr(model[1], "scale", nn.Parameter(torch.ones(2))), r"1\.scale"),
        (lambda model: setattr(model[1], "weight", nn.Parameter(torch.ones(2, 2))), r"1\.weight"),
        (lambda model: late(model[1]), r"1\.late"),
    ],
    ids=["module", "inserted", "parameter", "replaced", "direct"],
)
def test_what_a_model_adds_while_it_trains_is_refused(
    model: nn.Sequential, outside: Outside, add: Callable[[nn.Module], object], name: str
) -> None:
    outside.check(0)
    add(model)
    with pytest.raises(TrainingError, match=rf"{name} has come to the model.*step 3.*Create it in __init__"):
        outside.check(3)


def test_what_came_frozen_stays_so(model: nn.Sequential, outside: Outside) -> None:
    model.append(nn.Linear(2, 2).requires_grad_(False))
    outside.check(1)
    model[2].requires_grad_(True)
    with pytest.raises(TrainingError, match=r"2\.weight has come to the model.*step 2"):
        outside.check(2)


def test_what_moves_or_has_another_name_is_the_same(model: nn.Sequential, outside: Outside) -> None:
    prune.l1_unstructured(model[1], "weight", amount=0.5)
    outside.check(1)
    prune.remove(model[1], "weight")
    parametrize.register_parametrization(model[1], "weight", nn.Identity())
    outside.check(2)
    model[1] = nn.Sequential(model[1], nn.Tanh())
    model[1][0].register_buffer("seen", torch.ones(2))
    model[1].append(model)  # modules may hold each other
    outside.check(3)


def test_where_objects_come_and_go_names_are_compared(model: nn.Sequential) -> None:
    outside = Outside(model, by_name=True)
    model[1].weight = nn.Parameter(torch.ones(2, 2))
    outside.check(1)
    model[1].late = nn.Parameter(torch.ones(2))
    with pytest.raises(
        TrainingError, match=r"the model had no 1\.late when it was built \(seen in step 2\).*choose ddp"
    ):
        outside.check(2)
