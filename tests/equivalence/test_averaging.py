"""Convergent class: workers that average, against one process that trains them one after another.

At their trivial settings they are exact: period 1 with plain SGD is synchronous SGD (papers 001), an outer SGD with
rate 1 is plain averaging bit for bit. Every run also counts the bytes that its plan declares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import optim

from engine.plan.job import JobSpec
from engine.simulate.declared import declared
from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from tests.averaging import one_after_another
from tests.jobs import Run, distance, job, reference, succeed
from tests.traffic import counted_by_our_transport, counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")

PLAIN = {"name": "sgd", "learning_rate": 0.05}
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9, "weight_decay": 1e-3}}
ADAM = {"name": "adam", "learning_rate": 0.003, "options": {"weight_decay": 1e-3}}


def spec_of(strategy: str, workers: int, options: dict[str, Any], **changes: Any) -> JobSpec:
    changes["training"] = {"precision": "float64", **changes.get("training", {})}
    return job(strategy={"name": strategy, "options": options}, cluster={"workers": workers}, **changes)


def ran(spec: JobSpec, directory: Path) -> Run:
    run = succeed(spec, directory)
    if counted_by_our_transport(run):
        assert counted_bytes(run) == declared_bytes(run)
    return run


@pytest.mark.parametrize(("workers", "batch"), [(2, 26), (3, 26)])
def test_period_1_with_plain_sgd_is_synchronous_sgd(workers: int, batch: int, tmp_path: Path) -> None:
    """Three workers have 9, 9 and 8 samples: weighed by them, shards need not be equal."""
    options = {"period": 1, "bucket_bytes": 4000}
    spec = spec_of("parameter-averaging", workers, options, optimizer=PLAIN, training={"global_batch": batch})
    assert distance(ran(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


def test_momentum_is_averaged_over_a_tree(tmp_path: Path) -> None:
    """10 steps are no multiple of 4: the job averages at its end. Batch statistics stay local."""
    options = {"period": 4, "optimizer_state": True, "exchange": "tree-allreduce", "bucket_bytes": 4000}
    changes = {"model": {"name": "bn-cnn"}, "optimizer": MOMENTUM}
    spec = spec_of("parameter-averaging", 3, options, **changes)
    run = ran(spec, tmp_path)
    once, job = (
        sum(each.bytes for each in declared(run.plan, run.launch.model, 3, steps=steps)) for steps in (1, 10)
    )
    assert job == 3 * once

    def make(parameters: Any) -> optim.Optimizer:
        return optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)

    expected = one_after_another(spec, make, period=4, state=True)
    assert distance(run.state, expected) <= 1e-12
    assert distance(one_after_another(spec, make, period=4), expected) > 1e-6, "momentum matters here"


@pytest.mark.parametrize("state", [True, False])
def test_adam_on_servers_with_and_without_its_moments(state: bool, tmp_path: Path) -> None:
    """Two workers, 13 and 12 samples, each in two micro-batches."""
    options = {"period": 3, "optimizer_state": state, "exchange": "parameter-server"}
    training = {"micro_batches": 2, "global_batch": 25}
    spec = spec_of("parameter-averaging", 2, options, optimizer=ADAM, training=training)

    def make(parameters: Any) -> optim.Optimizer:
        return optim.Adam(parameters, lr=0.003, weight_decay=1e-3)

    expected = one_after_another(spec, make, period=3, state=state)
    assert distance(ran(spec, tmp_path).state, expected) <= 1e-9
    assert distance(one_after_another(spec, make, period=3, state=not state), expected) > 1e-6


def test_model_average_pulls_trains_and_pushes_with_the_linear_rule(tmp_path: Path) -> None:
    """Dedicated servers and split layers, clipping on each worker, a warm-up from the job's rate to three times it.
    Evaluations after steps 4 and 8, between averages, change nothing."""
    options = {
        "period": 3, "warm_up_steps": 4, "optimizer_state": True,
        "where": "dedicated", "servers": 2, "split_over": 1000,
    }  # fmt: skip
    spec = spec_of(
        "model-average",
        3,
        options,
        optimizer=MOMENTUM,
        training={"clip_norm": 0.5},
        evaluation={"every_epochs": 0.07, "at_end": True},
        telemetry={"detail": "all"},
    )
    run = ran(spec, tmp_path)
    expected = one_after_another(
        spec,
        lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
        period=3,
        state=True,
        rate=lambda step: 0.05 * (1 + 2 * min(1.0, step / 4)),
    )
    assert distance(run.state, expected) <= 1e-12

    found = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == 0])
    steps = {kind: set(found["step"][found["kind"] == kind].tolist()) for kind in Kind}
    assert steps[Kind.FORWARD] == steps[Kind.BACKWARD] == set(range(10))
    assert steps[Kind.SEND] == {2, 5, 8, 9}, "push"
    assert steps[Kind.RECEIVE] == {2, 5, 8, 9}, "pull, of what was pushed then"
    assert steps[Kind.AVERAGE] == {3, 6, 9}, "before the next period's first forward pass, and at the end"


@pytest.mark.parametrize("exchange", ["recursive-halving-doubling", "native"])
def test_diloco_takes_the_averaged_step_with_nesterovs_momentum(exchange: str, tmp_path: Path) -> None:
    options = {"period": 3, "exchange": exchange, "bucket_bytes": 4000}
    spec = spec_of("diloco", 2, options, optimizer={**ADAM, "name": "adamw"}, training={"global_batch": 25})
    expected = one_after_another(
        spec,
        lambda parameters: optim.AdamW(parameters, lr=0.003, weight_decay=1e-3),
        period=3,
        outer={"lr": 0.7, "momentum": 0.9, "nesterov": True},
    )
    assert distance(ran(spec, tmp_path).state, expected) <= 1e-9


def test_outer_sgd_with_rate_1_is_plain_averaging_bit_for_bit(tmp_path: Path) -> None:
    alike: dict[str, Any] = {"period": 3, "exchange": "central-reducer"}
    plain = {"outer": "sgd", "outer_learning_rate": 1.0, "outer_momentum": 0.0}
    changes: dict[str, Any] = {
        "optimizer": MOMENTUM,
        "training": {"precision": "float32", "deterministic": True},
    }
    outer = ran(spec_of("diloco", 3, alike | plain, **changes), tmp_path / "outer").state
    average = ran(spec_of("parameter-averaging", 3, alike, **changes), tmp_path / "plain").state
    assert all(torch.equal(outer[name], average[name]) for name in average)


def test_a_target_that_ends_the_job_between_averages_leaves_their_mean(tmp_path: Path) -> None:
    """It is reached at the first evaluation, after 4 of 10 steps: what was measured is what is saved."""
    spec = spec_of(
        "parameter-averaging",
        2,
        {"period": 10},
        optimizer=PLAIN,
        training={"target_accuracy": 0.001, "global_batch": 26},
        evaluation={"every_epochs": 0.07, "at_end": True},
    )
    run = succeed(spec, tmp_path)
    steps = run.summary()["steps"]
    assert 1 < steps < 10
    expected = one_after_another(spec, lambda p: optim.SGD(p, lr=0.05), period=10, steps=steps)
    assert distance(run.state, expected) <= 1e-12
    assert counted_bytes(run) == {}, "no average was due"
    assert run.summary(0)["test_accuracy"] == run.summary(1)["test_accuracy"]


def test_one_worker_is_plain_training(tmp_path: Path) -> None:
    spec = spec_of("parameter-averaging", 1, {"period": 3}, optimizer=MOMENTUM)
    assert distance(ran(spec, tmp_path).state, reference(spec, 1)) <= 1e-12
