"""Exact class, layers on one device: with batch normalization behind the cut, micro-batches, uneven and empty shares.

That hybrid's automatic cut is exact for 2, 3 and 4 workers stands in test_synchronous_strategies.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.inputs.build import find_task, load_dataset
from engine.inputs.task import classification, weight
from engine.models.build import build_model
from engine.runtime.trainer import LocalLoss
from engine.state.computation import Computation
from engine.telemetry.events import NONE, Kind, Track
from engine.telemetry.spool import batches
from tests.jobs import Run, distance, job, reference, succeed
from tests.traffic import counted_bytes, declared_bytes


def spec_of(workers: int, options: dict[str, Any], **changes: Any) -> Any:
    changes["training"] = {"precision": "float64", "steps": 6, **changes.get("training", {})}
    return job(strategy={"name": "hybrid", "options": options}, cluster={"workers": workers}, **changes)


@pytest.mark.usefixtures("gang_lane")
def test_statistics_behind_the_cut_are_kept_for_each_worker(tmp_path: Path) -> None:
    """A ring in front; the device, beside the last worker, computes a convolution and two normalizations."""
    spec = spec_of(
        3,
        {"cut": "3", "reducer": "ring"},
        model={"name": "bn-cnn"},
        training={"deterministic": True, "global_batch": 26, "micro_batches": 2},
        evaluation={"every_epochs": None, "at_end": True},
    )
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 3)) <= 1e-10
    assert counted_bytes(run) == declared_bytes(run), "an evaluation is booked on no layer"
    assert_evaluated(run)


@pytest.mark.usefixtures("gang_lane")
def test_a_device_and_a_reducer_of_their_own(tmp_path: Path) -> None:
    """Adam with a schedule and groups, passes without samples, and telemetry of the device."""
    spec = spec_of(
        2,
        {"cut": "3", "where": "dedicated", "reducer": "dedicated"},
        model={"name": "mlp"},
        data={"name": "synthetic", "options": {"shape": [1, 8, 8], "samples": 17, "test_samples": 9}},
        training={"global_batch": 7, "micro_batches": 3},  # steps of 7, 7 and 3 samples
        optimizer={
            "name": "adamw",
            "learning_rate": 0.003,
            "options": {"weight_decay": 0.01},
            "groups": [{"match": "*.bias", "options": {"weight_decay": 0.0}}],
        },
        schedule={"name": "cosine"},
        telemetry={"detail": "all"},
        evaluation={"every_epochs": None, "at_end": True},
    )
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 2)) <= 1e-9
    assert list(run.state) == list(build_model(spec.model).state_dict())
    cut = run.launch.model.layer("3").index
    counted, declared = counted_bytes(run), declared_bytes(run)
    assert {k: v for k, v in counted.items() if k[2] != cut} == {
        k: v for k, v in declared.items() if k[2] != cut
    }
    assert sum(v for k, v in counted.items() if k[2] == cut) == 2 * (2 * 17) * 32 * 8, (
        "each sample, both ways"
    )
    assert_evaluated(run)
    device = next(party.index for party in run.launch.parties if party.name == "device 0")
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == device])
    computed = {(int(e["kind"]), int(e["layer"])) for e in events if e["track"] == Track.COMPUTE}
    behind = {layer.index for layer in run.launch.model.layers if layer.name in ("3", "5")}
    for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.UPDATE):
        assert {layer for found, layer in computed if found == kind and layer >= 0} == behind
    assert {Kind.SEND, Kind.RECEIVE} <= set(events["kind"])
    assert sum(events["kind"] == Kind.UPDATE) == 6 * len(behind), "once in a step, after all its passes"
    forward, backward = Kind.FORWARD, Kind.BACKWARD
    assert passes(run, rank=0, step=1) == [forward, forward, backward, forward, backward, backward], (
        "the next front is computed while a micro-batch is away"
    )
    rows = {b.party: len(b.table("steps")) for b in batches(run.launch.spool) if len(b.table("steps"))}
    assert set(rows) == {0, 1}, "samples are the workers'"


def passes(run: Run, *, rank: int, step: int) -> list[int]:
    """A worker's passes in one step, in their order: its first layer's forward, and the end of backward, where time is
    booked on no layer."""
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == rank])
    mine = events[(events["step"] == step) & (events["track"] == Track.COMPUTE)]
    forward = (mine["kind"] == Kind.FORWARD) & (mine["layer"] == run.launch.model.layers[0].index)
    backward = (mine["kind"] == Kind.BACKWARD) & (mine["layer"] == NONE)
    mine = mine[forward | backward]
    return [int(kind) for kind in mine[np.argsort(mine["start"], kind="stable")]["kind"]]


def assert_evaluated(run: Run) -> None:
    """What was measured is what the saved model gives in one process."""
    spec = run.launch.job
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    model = build_model(spec.model, spec.training.precision).eval()
    model.load_state_dict(run.state)
    inputs, targets = data.test.batch(np.arange(len(data.test)))
    with torch.no_grad():
        result = task(model, inputs.double(), targets)
    assert result.correct is not None
    assert run.summary()["test_accuracy"] == pytest.approx(float(result.correct) / weight(targets), abs=1e-12)
    assert run.summary()["test_loss"] == pytest.approx(float(result.total) / weight(targets), rel=1e-9)


@pytest.mark.usefixtures("gang_lane")
def test_half_the_computation_in_half_precision(tmp_path: Path) -> None:
    """Under autocast activations travel in float32, and masks of absent gradients change nothing."""
    changes: dict[str, Any] = {"training": {"precision": "bf16", "steps": 4}}
    spec = spec_of(2, {"where": "dedicated"}, **changes)
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 2)) <= 0.02
    assert counted_bytes(run) == declared_bytes(run)


def test_batch_normalization_of_one_sample_says_what_to_do() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    loss = LocalLoss(partial(classification, net), Computation())
    assert loss(torch.randn(2, 4), torch.zeros(2, dtype=torch.int64)) is not None
    with pytest.raises(
        Exception, match=r"training\.global_batch = .*a worker's pass has one sample\. Use a larger"
    ):
        loss(torch.randn(1, 4), torch.zeros(1, dtype=torch.int64))
