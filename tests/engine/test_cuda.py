"""The exact class on CUDA: needs a device; skipped, and said so, where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.gang.gang import Gang
from engine.runtime.straggler import LEAST_NS
from engine.telemetry import spool
from engine.telemetry.batch import decode
from engine.telemetry.events import Clock, Kind, Track
from engine.telemetry.memory import ALLOCATED, ALLOCATED_PEAK, DEVICE, series
from tests.jobs import Run, distance, job, prepare, reference

pytestmark = [
    pytest.mark.usefixtures("gang_lane"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    ("strategy", "options", "bound"),
    [
        ("single", {}, 1e-9),
        ("parameter-server", {}, 1e-9),
        ("p3", {}, 1e-9),
        ("p3", {"answers": "fp16"}, 1e-3),
        ("ring-allreduce-overlap", {}, 1e-9),
        ("late-multiply", {"layers": "all"}, 1e-9),
        ("parameter-averaging", {"period": 1, "optimizer_state": True}, 1e-9),
    ],
)
def test_equals_one_process_on_the_cpu(
    strategy: str, options: dict[str, Any], bound: float, tmp_path: Path
) -> None:
    """Workers may share one device: the transport never leaves the host. SGD is linear in its momentum, so to average
    both in every step is synchronous, too. What answers in half precision say is added on the device."""
    workers = 1 if strategy == "single" else 2
    spec = job(
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"precision": "float64"},
    )
    launch = replace(prepare(spec, tmp_path), devices=("cuda:0",) * workers)
    launch.write()
    gang = Gang(launch)
    gang.start()
    end = gang.wait(120)
    gang.stop()
    assert end is not None
    assert end.status == "succeeded", end.reason
    run = Run(launch=launch, end=end)
    assert distance(run.state, reference(spec, workers)) <= bound
    for party in spool.parties(launch.spool):
        batches = [decode(body) for s in party.sequences() if (body := party.read(s)) is not None]
        events, steps = (np.concatenate([b.table(name) for b in batches]) for name in ("events", "steps"))
        assert steps["step"].tolist() == list(range(spec.training.steps)), "their spans are known"
        computed = np.isin(events["kind"], (Kind.FORWARD, Kind.BACKWARD)) & (events["track"] == Track.COMPUTE)
        assert (events["clock"][computed] == Clock.CUDA).all()
        assert (events["clock"][events["kind"] == Kind.WAIT] == Clock.HOST).all()
        first = events["start"][computed].min()
        assert first >= steps["start"].min() - 1_000_000, "a device's time is one of the attempt's clock"


def test_a_straggler_waits_for_what_its_device_has_computed(tmp_path: Path) -> None:
    """What it adds lies within spans that the device's own clock measures."""
    spec = job(
        strategy={"name": "p3", "options": {}},
        cluster={"workers": 2},
        training={"precision": "float64"},
        faults={"stragglers": [{"worker": 1, "factor": 3}]},
        telemetry={"detail": "all"},
    )
    launch = replace(prepare(spec, tmp_path), devices=("cuda:0",) * 2)
    launch.write()
    gang = Gang(launch)
    gang.start()
    end = gang.wait(120)
    gang.stop()
    assert end is not None
    assert end.status == "succeeded", end.reason
    run = Run(launch=launch, end=end)
    assert distance(run.state, reference(spec, 2)) <= 1e-9
    computed_ns, slowed_ns = (run.summary(1)[name] for name in ("computed_ns", "slowed_ns"))
    assert slowed_ns >= 2 * computed_ns - LEAST_NS
    events = np.concatenate([b.table("events") for b in spool.batches(launch.spool) if b.party == 1])
    passes = events[
        np.isin(events["kind"], (Kind.FORWARD, Kind.BACKWARD)) & (events["track"] == Track.COMPUTE)
    ]
    assert (passes["clock"] == Clock.CUDA).all()
    assert (passes["end"] - passes["start"]).sum() >= 0.99 * slowed_ns, "two clocks"


def test_what_is_swapped_has_the_devices_times_and_every_layer_is_weighed(tmp_path: Path) -> None:
    spec = job(
        model={"name": "resnet-digits"},
        strategy={"name": "single", "options": {}},
        overrides=[{"activations": "swap", "activation_options": {"least_bytes": 0}}],
        telemetry={"detail": "all"},
    )
    launch = replace(prepare(spec, tmp_path), devices=("cuda:0",))
    launch.write()
    gang = Gang(launch)
    gang.start()
    end = gang.wait(120)
    gang.stop()
    assert end is not None
    assert end.status == "succeeded", end.reason
    found = list(spool.batches(launch.spool))
    events = np.concatenate([batch.table("events") for batch in found])
    moved = events[events["track"] == Track.MEMORY]
    for kind in (Kind.SWAP_OUT, Kind.SWAP_IN):
        mine = moved[moved["kind"] == kind]
        assert len(mine)
        assert (mine["clock"] == Clock.CUDA).all()
        assert (mine["bytes"] > 0).all()
        assert (mine["layer"] >= 0).any()
    saved = moved[(moved["kind"] == Kind.SAVED) & (moved["step"] == 0)]
    assert len(saved) > 1
    metrics = {batch.metrics[row["name"]] for batch in found for row in batch.table("metrics")}
    assert {series(measure, "worker 0") for measure in (ALLOCATED, ALLOCATED_PEAK, DEVICE)} <= metrics
