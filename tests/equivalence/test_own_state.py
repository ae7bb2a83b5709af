"""Exact class, modules with modes and buffers of their own, with evaluations in between, which leave no trace."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.errors import UserError
from engine.models.build import build_model
from engine.plan.job import JobSpec
from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import distance, job, reference, run, succeed


def spec_of(model: str, strategy: str, workers: int, **options: Any) -> JobSpec:
    """Two evaluations between the steps, and one at the end."""
    shape = {"shape": [1, 8, 8], "classes": 10, "samples": 91, "test_samples": 5}
    return job(
        model={"entrypoint": f"own_state:{model}", "directory": str(USER_CODE)},
        data={"name": "synthetic", "options": shape},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": 7, "global_batch": 13, "precision": "float64"},
        evaluation={"every_epochs": 0.4, "at_end": True},
    )


@cache
def expected(model: str, workers: int) -> dict[str, Tensor]:
    return reference(spec_of(model, "single", 1), workers)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("model", "strategy", "workers", "options"),
    [
        ("build", "single", 1, {}),
        ("build", "ring-allreduce-overlap", 2, {}),
        ("build", "ddp", 2, {}),
        ("build", "p3+late-multiply", 3, {}),
        ("convolutional", "hybrid", 2, {"cut": "second"}),
        ("convolutional", "model-parallel", 2, {"stages": 2}),
    ],
)
def test_equals_one_process_that_never_evaluates(
    model: str, strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(spec_of(model, strategy, workers, **options), tmp_path)
    replicas = 1 if strategy == "model-parallel" else workers
    assert distance(run.state, expected(model, replicas)) <= 1e-11
    assert run.summary()["test_loss"] > 0


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("model", "strategy", "workers", "options"),
    [
        ("frozen_by_train", "single", 1, {}),
        ("frozen_by_train", "p3", 2, {}),
        ("frozen_by_train", "hybrid", 2, {"cut": "second"}),
        ("left_in_evaluation", "single", 1, {}),
        ("left_in_evaluation", "fsdp", 2, {}),
    ],
)
def test_a_models_own_train_is_called(
    model: str, strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_of(model, strategy, workers, **options)
    called = replace(spec, model=replace(spec.model, options={"called": True}))
    run = succeed(spec, tmp_path)
    assert distance(run.state, plain.train(called, workers)) <= 1e-11


def test_a_train_that_fails_is_refused() -> None:
    with pytest.raises(UserError, match=r"train\(\) fails: ValueError: no mode True here.*own_state.py"):
        build_model(spec_of("fails_to_train", "single", 1).model)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(("strategy", "workers"), [("single", 1), ("p3", 2), ("fsdp", 2)])
def test_extra_state_that_is_no_tensor_is_saved(strategy: str, workers: int, tmp_path: Path) -> None:
    state = succeed(spec_of("versioned", strategy, workers), tmp_path).state
    model = build_model(spec_of("versioned", "single", 1).model).double()
    model.load_state_dict(state)
    assert list(state) == list(model.state_dict())
    assert state["3._extra_state"] == {"version": 2}


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers"), [("p3", 2), ("native-allreduce", 1), ("ddp", 1), ("ddp", 2), ("fsdp", 2)]
)
def test_statistics_of_all_workers_are_refused_where_there_are_none(
    strategy: str, workers: int, tmp_path: Path
) -> None:
    """Without a process group it was a BatchNorm, unseen; on the CPU with one it failed without a remedy."""
    end = run(spec_of("synchronized", strategy, workers), tmp_path).end
    assert end.error is not None
    assert end.error["user"] is not None, end.reason
    assert "model = '2': is a SyncBatchNorm" in end.reason
    assert "Build a BatchNorm" in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["single", "ring-allreduce"])
def test_one_workers_statistics_are_those_of_all(strategy: str, tmp_path: Path) -> None:
    spec = spec_of("synchronized", strategy, 1)
    assert distance(succeed(spec, tmp_path).state, plain.train(spec, 1)) <= 1e-11
