"""A user's model in float64 under a strategy, against plain PyTorch (`tests/plain.py`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from engine.plan.job import JobSpec
from tests import plain
from tests.jobs import distance, job, succeed

USER_CODE = Path(__file__).parent / "user_code"
OPTIONS: dict[str, dict[str, Any]] = {
    "single": {},
    "p3": {"slice_size": 300},
    "parameter-server": {},
    "parameter-server-deferred": {},
    "ring-allreduce-overlap": {"bucket_bytes": 4000},
    "native-allreduce": {},
    "late-multiply": {"layers": "all"},
    "p3+late-multiply": {"layers": "all", "slice_size": 300},
    "ddp": {"bucket_bytes": 4000},
    "parameter-averaging": {"period": 1},
}
"""So small that a layer has several slices, and a bucket few layers."""


def spec_of(entrypoint: str, strategy: str, workers: int, **options: Any) -> JobSpec:
    return job(
        model={"entrypoint": entrypoint, "directory": str(USER_CODE), "options": options},
        strategy={"name": strategy, "options": OPTIONS.get(strategy, {})},
        cluster={"workers": workers},
        training={"steps": 14, "precision": "float64"},
    )


@cache
def expected(entrypoint: str, workers: int, **options: Any) -> dict[str, Tensor]:
    return plain.train(spec_of(entrypoint, "single", 1, **options), workers)


def holds(entrypoint: str, strategy: str, workers: int, directory: Path, **options: Any) -> None:
    state = succeed(spec_of(entrypoint, strategy, workers, **options), directory).state
    assert distance(state, expected(entrypoint, workers, **options)) <= 1e-11
