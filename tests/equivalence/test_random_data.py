"""Data that draw random numbers as they are read, from the generator that the model draws from, too: the same numbers
as in a plain loop, every time."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import default_collate

from engine.inputs.sharding import global_batch_at
from engine.plan.job import JobSpec
from tests.equivalence.against_plain import USER_CODE
from tests.equivalence.user_code import augmented
from tests.jobs import distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


def spec_of(strategy: str, **options: Any) -> JobSpec:
    return job(
        model={"entrypoint": "augmented:build", "directory": str(USER_CODE)},
        data={"entrypoint": "augmented:data", "directory": str(USER_CODE), "options": options},
        strategy={"name": strategy},
        cluster={"workers": 1},
        training={"steps": 40, "global_batch": 4, "precision": "float64", "seed": 3},
        evaluation={"every_epochs": 1, "at_end": True},
    )


@cache
def expected(still: tuple[int, ...] = ()) -> dict[str, Tensor]:
    spec = spec_of("single")
    torch.manual_seed(3)
    train, _ = augmented.data(still)
    model = augmented.build().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=spec.optimizer.learning_rate, **spec.optimizer.options)
    torch.manual_seed(3 + 1)
    for step in range(40):
        chosen = global_batch_at(step, len(train), 4, 3)
        inputs, targets = default_collate([train[int(index)] for index in chosen])
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs.double()), targets).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("strategy", ["single", "p3", "ddp"])
def test_a_plain_loop_draws_the_same_numbers(strategy: str, tmp_path: Path) -> None:
    assert distance(succeed(spec_of(strategy), tmp_path).state, expected()) <= 1e-11


def test_so_they_do_where_the_first_batch_draws_none(tmp_path: Path) -> None:
    """They were read ahead, beside the model: by chance one or the other got a number."""
    still = tuple(global_batch_at(0, 31, 4, 3).tolist())
    assert distance(succeed(spec_of("single", still=list(still)), tmp_path).state, expected(still)) <= 1e-11
