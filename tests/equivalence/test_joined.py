"""Exact class: parameters that are joined before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import plain
from tests.equivalence.against_plain import OPTIONS, USER_CODE, expected, holds, spec_of
from tests.jobs import distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


@pytest.mark.parametrize("how", ["cat", "stack"])
@pytest.mark.parametrize(
    ("strategy", "workers"),
    [("p3", 2), ("ring-allreduce", 3), ("ring-allreduce-overlap", 2), ("late-multiply", 2), ("single", 1)],
)
def test_gradients_that_are_views_of_one_tensor_are_nobody_elses(
    how: str, strategy: str, workers: int, tmp_path: Path
) -> None:
    holds("joined:fused", strategy, workers, tmp_path, how=how)


@pytest.mark.parametrize("strategy", ["ring-allreduce", "ring-allreduce-overlap"])
def test_one_of_which_a_hook_keeps_a_view_is_the_sum_in_the_next_step(strategy: str, tmp_path: Path) -> None:
    state = succeed(spec_of("joined:fused", strategy, 2, how="view kept"), tmp_path).state
    assert distance(state, expected("joined:fused", 1, how="view kept")) <= 1e-11


def test_they_add_up_over_micro_batches(tmp_path: Path) -> None:
    spec = job(
        model={"entrypoint": "joined:fused", "directory": str(USER_CODE), "options": {"how": "cat"}},
        strategy={"name": "p3", "options": OPTIONS["p3"]},
        cluster={"workers": 2},
        training={"steps": 6, "global_batch": 12, "precision": "float64", "micro_batches": 2},
    )
    assert distance(succeed(spec, tmp_path).state, plain.train(spec, 2)) <= 1e-11
