"""Exact class: a model that looks at its gradients before they have left finds what plain PyTorch has there, or is
refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.plan.job import JobSpec
from tests import plain
from tests.equivalence.against_plain import OPTIONS, USER_CODE, holds, spec_of
from tests.jobs import distance, job, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
LATE = ("late-multiply", "p3+late-multiply")


def looking(how: str, strategy: str, **training: Any) -> JobSpec:
    return job(
        model={"entrypoint": "looks:looks", "directory": str(USER_CODE), "options": {"how": how}},
        strategy={"name": strategy, "options": OPTIONS[strategy]},
        cluster={"workers": 2},
        training={"steps": 6, "global_batch": 12, "precision": "float64", "micro_batches": 3, **training},
    )


@pytest.mark.parametrize(
    ("strategy", "how"),
    [
        pytest.param(strategy, how, marks=[] if place == turn % 2 else [pytest.mark.soak])
        for turn, how in enumerate(("hook", "late hook", "keeps", "threads", "selective", "copies"))
        for place, strategy in enumerate(LATE)
    ],
)
def test_what_is_still_in_factors_is_there_for_who_looks(how: str, strategy: str, tmp_path: Path) -> None:
    spec = looking(how, strategy)
    assert distance(succeed(spec, tmp_path).state, plain.train(spec, 2)) <= 1e-11


def test_a_look_under_autocast_gets_a_gradient_of_the_parameters_type(tmp_path: Path) -> None:
    logs = succeed(looking("keeps", "late-multiply", precision="bf16"), tmp_path).logs()
    assert "looks at its gradient before that has left" in logs


@pytest.mark.parametrize("strategy", ["ring-allreduce-overlap", "native-allreduce"])
def test_a_gradient_that_a_hook_keeps_is_its_workers_in_that_backward_pass(
    strategy: str, tmp_path: Path
) -> None:
    holds("looks:held", strategy, 2, tmp_path)


def test_a_gradient_that_a_hook_keeps_is_the_sum_afterwards_as_under_ddp(tmp_path: Path) -> None:
    states = [
        succeed(spec_of("looks:held", strategy, 2, on=True), tmp_path / strategy).state
        for strategy in ("ddp", "ring-allreduce-overlap", "native-allreduce")
    ]
    assert distance(states[1], states[0]) <= 1e-11
    assert distance(states[2], states[0]) <= 1e-11


def test_where_a_server_updates_a_kept_gradient_stays_a_part_and_this_is_said(tmp_path: Path) -> None:
    logs = succeed(spec_of("looks:held", "p3", 2), tmp_path).logs()
    assert (
        logs.count("warning: a hook keeps the gradient of middle.weight. It stays this worker's own part")
        == 2
    )


@pytest.mark.parametrize("strategy", ["ring-allreduce-overlap", "p3", "parameter-server", *LATE])
def test_a_gradient_that_is_written_to_after_it_has_left_ends_the_job(strategy: str, tmp_path: Path) -> None:
    end = run(spec_of("looks:held", strategy, 2, writes=True), tmp_path).end
    assert end.status == "failed"
    assert "the gradient of middle.weight was written to after it had left" in end.reason


@pytest.mark.parametrize("how", ["scales", "replaces", "at the end"])
def test_what_is_written_to_a_gradient_that_has_left_is_not_lost_unseen(how: str, tmp_path: Path) -> None:
    """DDP put its bucket's sum in the gradient's place; where gradients leave after backward, nothing is lost."""
    for workers in (1, 2):
        end = run(spec_of("looks:looks", "ddp", workers, how=how), tmp_path / f"ddp-{workers}").end
        assert end.status == "failed"
        assert "was written to in backward after `ddp` had taken it to be summed" in end.reason
        assert "choose a strategy whose gradients leave after backward, such as ring-allreduce" in end.reason
    holds("looks:looks", "ring-allreduce", 2, tmp_path / "ring", how=how)


@pytest.mark.parametrize("how", ["hook", "late hook", "keeps"])
def test_who_looks_in_time_changes_gradients_under_ddp_as_well(how: str, tmp_path: Path) -> None:
    holds("looks:looks", "ddp", 2, tmp_path, how=how)


@pytest.mark.parametrize("strategy", ["ring-allreduce-overlap", "p3"])
def test_a_refusal_that_the_model_catches_ends_the_job_all_the_same(strategy: str, tmp_path: Path) -> None:
    end = run(spec_of("looks:looks", strategy, 2, how="swallows"), tmp_path).end
    assert end.status == "failed"
    assert "the gradient of last.weight was read or set in backward after it had left" in end.reason


def test_a_part_of_the_model_is_pickled_without_our_hooks(tmp_path: Path) -> None:
    for strategy in ("p3", "late-multiply"):
        holds("looks:looks", strategy, 2, tmp_path / strategy, how="pickles")
