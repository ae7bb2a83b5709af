"""Exact class: threads of the model's own read what plain PyTorch would give them, while layers are being updated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import plain
from tests.equivalence.against_plain import USER_CODE, holds
from tests.jobs import distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize(
    ("strategy", "workers", "how"),
    [
        ("native-allreduce", 2, "sum"),
        pytest.param("native-allreduce", 2, "functional", marks=pytest.mark.soak),
        ("ring-allreduce-overlap", 2, "functional"),
        pytest.param("late-multiply", 2, "functional", marks=pytest.mark.soak),
        ("single", 1, "sum"),
    ],
)
def test_branches_in_threads_wait_for_the_update(
    strategy: str, workers: int, how: str, tmp_path: Path
) -> None:
    """Adam's update takes long enough that a thread meets it in most runs."""
    spec = job(
        model={
            "entrypoint": "threads:branches",
            "directory": str(USER_CODE),
            "options": {"how": how},
        },
        optimizer={"name": "adam", "learning_rate": 0.001},
        strategy={"name": strategy},
        cluster={"workers": workers},
        training={"steps": 30, "precision": "float64"},
    )
    assert distance(succeed(spec, tmp_path).state, plain.train(spec, workers)) <= 1e-11


@pytest.mark.parametrize(
    ("strategy", "everything"),
    [
        pytest.param("ring-allreduce-overlap", False, marks=pytest.mark.soak),
        pytest.param("native-allreduce", False, marks=pytest.mark.soak),
        ("p3", False),
        ("ring-allreduce-overlap", True),
    ],
)
def test_a_thread_that_looks_all_the_time_changes_nothing(
    strategy: str, everything: bool, tmp_path: Path
) -> None:
    """Neither what forward reads next, nor what the runtime goes through meanwhile."""
    holds("threads:monitored", strategy, 2, tmp_path, everything=everything)
