"""Exact class, parameters of no dimension, complex ones and frozen ones of whole numbers; dictionaries and tuples as
inputs and targets; a loss that needs gradients in an evaluation, too."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.errors import UserError
from engine.plan.job import JobSpec
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import describe, distance, job, plan_of, reference, succeed


def spec_of(strategy: str, workers: int, **options: Any) -> JobSpec:
    return job(
        model={"entrypoint": "odd:build", "directory": str(USER_CODE)},
        data={"entrypoint": "odd:data", "directory": str(USER_CODE)},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": 8, "global_batch": 7, "precision": "float64", "micro_batches": 2},
        evaluation={"every_epochs": None, "at_end": True},
    )


@cache
def expected(workers: int) -> dict[str, Tensor]:
    return reference(spec_of("single", 1), workers)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("single", 1, {}),
        ("p3", 3, {"slice_size": 50}),
        ("ring-allreduce-overlap", 2, {"bucket_bytes": 400}),
        ("tree-allreduce", 3, {"bucket_bytes": 400}),
        ("p3+late-multiply", 2, {"layers": "all"}),
        ("native-allreduce", 2, {}),
        ("ddp", 2, {}),
    ],
)
def test_equals_one_process(strategy: str, workers: int, options: dict[str, Any], tmp_path: Path) -> None:
    run = succeed(spec_of(strategy, workers, **options), tmp_path)
    assert distance(run.state, expected(workers)) <= 1e-11
    assert run.summary()["test_loss"] > 0


def test_a_batch_of_several_tensors_is_not_cut() -> None:
    assert "several tensors" in describe(spec_of("single", 1)).uncut


def test_fsdp_shards_no_scalars() -> None:
    with pytest.raises(
        UserError, match=r"fully_shard cuts parameters .* temperature has none.*shape \(1,\)|one type"
    ):
        plan_of(spec_of("fsdp", 2))
