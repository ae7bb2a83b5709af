"""Exact class: what a model writes to its parameters besides the update counts, or ends the job; it is never lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.plan.job import EvaluationSpec, JobSpec
from engine.plan.updates import OptimizerSpec
from tests.equivalence.against_plain import holds, spec_of
from tests.jobs import distance, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


def refused(entrypoint: str, strategy: str, workers: int, directory: Path, **options: Any) -> str:
    end = run(spec_of(entrypoint, strategy, workers, **options), directory).end
    assert end.status == "failed"
    return end.reason


@pytest.mark.parametrize(
    ("strategy", "workers", "how"),
    [
        ("p3", 1, "clamp"),
        ("p3", 2, "loss"),
        ("p3+late-multiply", 1, "clamp"),  # some layers are updated by a server, some here
        ("p3+late-multiply", 2, "clamp"),
        ("parameter-server", 3, "hook"),
        ("parameter-server-deferred", 2, "replaced"),
        ("central-reduce", 2, "clamp"),
        ("ring-allreduce-overlap", 2, "clamp"),
        ("ddp", 2, "clamp"),
        ("single", 1, "data"),
        ("ring-allreduce-overlap", 2, "data"),
    ],
)
def test_what_all_workers_write_alike_is_kept(strategy: str, workers: int, how: str, tmp_path: Path) -> None:
    holds("writes:model", strategy, workers, tmp_path, how=how, when=3)


@pytest.mark.parametrize("strategy", ["single", "p3", "parameter-server"])
def test_one_worker_keeps_an_embeddings_rows_short(strategy: str, tmp_path: Path) -> None:
    holds("writes:looking", strategy, 1, tmp_path)


@pytest.mark.parametrize(("strategy", "workers"), [("p3", 1), ("parameter-server-deferred", 2), ("ddp", 2)])
def test_what_an_evaluation_writes_is_kept(strategy: str, workers: int, tmp_path: Path) -> None:
    """As where the one worker updates the parameters itself."""
    states = []
    for evaluation in ({"every_epochs": None, "at_end": False}, {"every_epochs": 0.1, "at_end": False}):
        for name, count in (("single", 1), (strategy, workers)):
            spec = spec_of("writes:model", name, count, how="in_evaluation")
            spec = replace(spec, evaluation=EvaluationSpec(**evaluation))
            states.append(succeed(spec, tmp_path / str(len(states))).state)
    without, same, expected, found = states
    assert distance(same, without) <= 1e-11 < distance(expected, without)
    assert distance(found, expected) <= 1e-11


@pytest.mark.parametrize("strategy", ["p3", "ring-allreduce-overlap", "ddp"])
def test_rows_that_differ_between_workers_are_refused(strategy: str, tmp_path: Path) -> None:
    reason = refused("writes:looking", strategy, 2, tmp_path)
    assert "table" in reason
    assert "max_norm" in reason
    assert "train with one worker" in reason


def test_one_worker_that_goes_on_without_its_own_writes_is_refused(tmp_path: Path) -> None:
    """It may hold an older version than its server: what it writes there would undo an update."""
    spec = spec_of("writes:model", "async-sgd", 1, how="clamp", when=3)
    spec = replace(spec, strategy=replace(spec.strategy, options={"own_writes": False}))
    end = run(spec, tmp_path).end
    assert end.status == "failed"
    assert "or for their own last update" in end.reason


@pytest.mark.parametrize(
    ("strategy", "how"), [("ring-allreduce-overlap", "data_by_samples"), ("ddp", "by_samples")]
)
def test_other_values_on_other_workers_are_refused(strategy: str, how: str, tmp_path: Path) -> None:
    assert "first.weight is not the same" in refused("writes:model", strategy, 2, tmp_path, how=how)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [("async-sgd", {}), ("parameter-averaging", {"period": 4})],
)
def test_workers_that_drift_or_average_hold_the_same_of_what_is_not_trained(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """What differs is found before it is saved, even if it was written in the last step; what is written alike in every
    step is kept."""

    def spec(how: str, when: int) -> JobSpec:
        spec = spec_of("writes:model", strategy, 2, how=how, when=when)
        plain = OptimizerSpec(name="sgd", learning_rate=0.05)
        return replace(spec, strategy=replace(spec.strategy, options=options), optimizer=plain)

    end = run(spec("untrained_by_samples", 14), tmp_path / "apart").end
    assert end.status == "failed"
    assert "scale is not the same on worker" in end.reason
    assert "register what does as a buffer" in end.reason
    alike = succeed(spec("untrained", 3), tmp_path / "alike").state
    assert torch.allclose(alike["scale"], torch.full((24,), 0.99**12, dtype=torch.float64))


@pytest.mark.parametrize(
    ("how", "when", "once"),
    [
        ("data", 1, False),
        ("array", 12, True),
        ("kept_view", 11, False),
        ("after_use", 12, True),
        ("kept_pointer", 12, True),
    ],
)
def test_what_a_server_cannot_see_is_found(how: str, when: int, once: bool, tmp_path: Path) -> None:
    """In the first steps everything is looked at, and later what was given away, may have been kept, or is shared."""
    reason = refused("writes:model", "p3", 1, tmp_path, how=how, when=when, once=once)
    assert "first.weight was written to in a way that autograd does not see" in reason
    assert "torch.no_grad()" in reason


@pytest.mark.parametrize(("how", "when"), [("clamp", 3), ("data", 2)])
def test_what_shards_do_not_get_to_know_is_found(how: str, when: int, tmp_path: Path) -> None:
    reason = refused("writes:inside", "fsdp", 2, tmp_path, how=how, when=when)
    assert "weight was written to while `fsdp` had gathered it" in reason


@pytest.mark.parametrize(("strategy", "workers"), [("late-multiply", 2), ("p3+late-multiply", 3), ("p3", 2)])
def test_a_layer_whose_weight_backward_does_not_need_may_be_written_between_two_passes(
    strategy: str, workers: int, tmp_path: Path
) -> None:
    holds("between:model", strategy, workers, tmp_path)
