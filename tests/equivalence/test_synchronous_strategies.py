"""Exact class: after 10 steps every synchronous strategy holds the parameters of one-process training.

The same runs show that the transport counted exactly the bytes that the plan declares. Every strategy meets every
number of workers and every case but float32, and every such case every number of workers; not every three of them
meet. In `soak` the same is so with float32, in which the model with batch statistics trains here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.strategies import STRATEGIES
from tests.arrays import covering_rows
from tests.jobs import distance, job, reference, succeed
from tests.traffic import counted_by_our_transport, counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")

ELSEWHERE = ("single", "late-multiply", "p3+late-multiply", "model-parallel")
"""The reference, and what is held to the same in `test_late_multiply.py`, with layers of the kind that it is about, and
in `test_model_parallel.py`, where workers are stages."""
SYNCHRONOUS = [s.name for s in STRATEGIES if s.proof == "exact" and s.name not in ELSEWHERE]
WORKERS = (2, 3, 4)
SMALL_SLICES = {"slice_size": 400}
OPTIONS: dict[str, dict[str, Any]] = {
    "parameter-server": {"split_over": 1000},
    "parameter-server-deferred": {"split_over": 1000},
    "parameter-slicing": SMALL_SLICES,
    "p3": SMALL_SLICES,
    "ring-allreduce": {"bucket_bytes": 4000},
    "ring-allreduce-overlap": {"bucket_bytes": 4000},
    "tree-allreduce": {"bucket_bytes": 4000},
    "native-allreduce": {"bucket_bytes": 4000},
    "ddp": {"bucket_bytes": 4000},
    "fsdp": {"group_bytes": 4000},
}
"""So small that the small model has many units, cut across parameters."""
ADAM = {"name": "adam", "learning_rate": 0.003, "options": {"weight_decay": 1e-3}}
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "float32": ({}, 1e-5),
    "batch-norm": ({"model": {"name": "bn-cnn"}}, 1e-4),
    "float64": ({"training": {"precision": "float64"}}, 1e-12),
    "adam": ({"training": {"precision": "float64"}, "optimizer": ADAM}, 1e-9),
}


FEW = covering_rows(SYNCHRONOUS, WORKERS, [case for case in CASES if case != "float32"])
MORE = [row for row in covering_rows(SYNCHRONOUS, WORKERS, list(CASES)) if row not in FEW]
"""In `soak`."""


def spec_of(strategy: str, workers: int, changes: dict[str, Any], **options: Any) -> Any:
    return job(
        strategy={"name": strategy, "options": OPTIONS.get(strategy, {}) | options},
        cluster={"workers": workers},
        **changes,
    )


@cache
def expected(case: str, workers: int) -> dict[str, Tensor]:
    return reference(spec_of("single", 1, CASES[case][0]), workers)


@pytest.mark.parametrize(
    ("strategy", "workers", "case"),
    [*FEW, *(pytest.param(*row, marks=pytest.mark.soak) for row in MORE)],
)
def test_equals_one_process_on_the_same_shards(
    strategy: str, workers: int, case: str, tmp_path: Path
) -> None:
    _equal(spec_of(strategy, workers, CASES[case][0]), workers, case, tmp_path)


@pytest.mark.parametrize("case", [pytest.param("float32", marks=pytest.mark.soak), "float64"])
@pytest.mark.parametrize("workers", WORKERS)
def test_recursive_halving_and_doubling_does_too(workers: int, case: str, tmp_path: Path) -> None:
    spec = spec_of("tree-allreduce", workers, CASES[case][0], algorithm="recursive-halving-doubling")
    _equal(spec, workers, case, tmp_path)


@pytest.mark.parametrize("workers", WORKERS)
def test_reduce_and_broadcast_of_gradients_does_too(workers: int, tmp_path: Path) -> None:
    """Papers 000, Algorithm 1: the baseline of late-multiply."""
    spec = spec_of("central-reduce", workers, CASES["float64"][0], update="worker")
    _equal(spec, workers, "float64", tmp_path)


def _equal(spec: Any, workers: int, case: str, directory: Path) -> None:
    """Run it and compare: with the same shards one after another, with the whole batch, with the declared bytes."""
    limit = CASES[case][1]
    run = succeed(spec, directory)
    state = run.state
    assert distance(state, expected(case, workers)) <= limit
    if case != "batch-norm":  # without batch statistics one big batch is the same function
        assert distance(state, expected(case, 1)) <= limit
    if counted_by_our_transport(run):
        assert counted_bytes(run) == declared_bytes(run)


def test_single_equals_plain_pytorch(tmp_path: Path) -> None:
    state = succeed(spec_of("single", 1, {"training": {"precision": "float64"}}), tmp_path).state
    assert distance(state, expected("float64", 1)) <= 1e-12
