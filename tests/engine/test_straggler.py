"""Workers that are slowed on purpose: by how much, what of the record it is, and that nothing else changes."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import UserError
from engine.plan.faults import FaultsSpec, StragglerSpec
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, only_set, to_plain
from engine.preview import text
from engine.replay.device import Pace
from engine.runtime.straggler import LEAST_NS, Slowness, Straggler, computing_clock, lengthening
from engine.state.recording import Recording
from engine.telemetry.events import Kind
from engine.telemetry.recorder import Recorder
from engine.telemetry.spool import batches
from tests.engine.test_span_clock import events_of
from tests.jobs import Run, describe, distance, job, plan_of, reference, succeed
from tests.traffic import counted_by_our_transport, counted_bytes, declared_bytes

MS = 1_000_000
TWICE = {"stragglers": [{"worker": 1, "factor": 2}]}

BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"worker": -1, "factor": 2}, "faults.stragglers.0.worker", "workers are counted from 0"),
    ({"worker": 2, "factor": 2}, "faults.stragglers.0.worker", "the job has 2 workers, counted from 0. Give a number"),
    ({"worker": 0, "factor": 0.5}, "faults.stragglers.0.factor", "no worker can be made faster: from 1 to 1000"),
    ({"worker": 0, "factor": float("nan")}, "faults.stragglers.0.factor", "from 1 to 1000"),
    ({"worker": 0, "factor": 1001}, "faults.stragglers.0.factor", "from 1 to 1000"),
    ({"worker": 0, "jitter": -0.1}, "faults.stragglers.0.jitter", "is a standard deviation: from 0 to 2"),
    ({"worker": 0, "pause_every_steps": 0, "pause_s": 1}, "faults.stragglers.0.pause_every_steps", "at least 1"),
    ({"worker": 0, "pause_every_steps": 5}, "faults.stragglers.0.pause_s", "both how often and how long"),
    ({"worker": 0, "pause_s": 1}, "faults.stragglers.0.pause_s", "both how often and how long. Give both"),
    ({"worker": 0, "pause_every_steps": 5, "pause_s": 301}, "faults.stragglers.0.pause_s", "from 0 to 300"),
    ({"worker": 0, "factor": 1}, "faults.stragglers.0.factor", "slows nothing without jitter or pauses. Give"),
    ({"worker": 0, "faktor": 2}, "faults.stragglers.0.faktor", "Did you mean 'factor'?"),
]  # fmt: skip


@pytest.mark.parametrize(("straggler", "field", "message"), BROKEN)
def test_every_rule_names_field_value_rule_and_remedy(
    straggler: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        job(cluster={"workers": 2}, faults={"stragglers": [straggler]})
    assert caught.value.field == field
    assert message in str(caught.value)


def test_a_worker_is_slowed_once() -> None:
    with pytest.raises(UserError, match=r"faults\.stragglers\.1\.worker = 1: this worker is slowed already"):
        job(
            cluster={"workers": 2},
            faults={"stragglers": [*TWICE["stragglers"], {"worker": 1, "jitter": 0.1}]},
        )


def test_it_says_what_is_slowed_in_one_way() -> None:
    one = StragglerSpec(worker=1)
    other = StragglerSpec(worker=0, factor=1.5, jitter=0.3, pause_every_steps=20, pause_s=0.5)
    assert FaultsSpec().text is None
    assert FaultsSpec(stragglers=(one,)).text == "worker 1 slowed: computes 2x as long"
    both = "worker 0 slowed: computes 1.5x as long, jitter 0.3, pauses 0.5 s every 20 steps; " + one.text
    assert FaultsSpec(stragglers=(one, other)).text == FaultsSpec(stragglers=(other, one)).text == both
    assert (
        StragglerSpec(worker=2, factor=1, pause_every_steps=1, pause_s=1).text
        == "worker 2 slowed: pauses 1 s every step"
    )
    assert job().slowed is None


def test_a_job_keeps_its_faults_and_one_without_says_nothing_of_them() -> None:
    spec = job(cluster={"workers": 2}, faults=TWICE)
    assert from_plain(JobSpec, to_plain(spec)) == from_plain(JobSpec, only_set(spec)) == spec
    assert spec.slowed == "worker 1 slowed: computes 2x as long"
    assert "faults" not in only_set(job())


def test_jitter_is_log_normal_around_the_factor_and_repeats() -> None:
    spec = StragglerSpec(worker=1, factor=8, jitter=0.25)
    found = [Slowness(spec, seed=3).factor(step) for step in range(2000)]
    assert found == [Slowness(spec, seed=3).factor(step) for step in range(2000)]
    logarithms = [math.log(factor / 8) for factor in found]
    assert statistics.median(logarithms) == pytest.approx(0, abs=0.03)
    assert statistics.stdev(logarithms) == pytest.approx(0.25, rel=0.1)
    for other in (Slowness(spec, seed=4), Slowness(StragglerSpec(worker=0, factor=8, jitter=0.25), seed=3)):
        assert len(set(found) & {other.factor(step) for step in range(2000)}) == 0
    least = Slowness(StragglerSpec(worker=0, factor=1, jitter=1), seed=0)
    assert min(least.factor(step) for step in range(100)) == 1, "nothing is computed faster than it can be"


def test_pauses_come_before_every_so_many_steps() -> None:
    slowness = Slowness(StragglerSpec(worker=0, factor=1, pause_every_steps=3, pause_s=0.5), seed=0)
    assert [step for step in range(10) if slowness.pause_ns(step)] == [3, 6, 9]
    assert slowness.pause_ns(3) == 500 * MS


class Clock:
    """A clock that goes on when it is told to, and sleeps late."""

    def __init__(self, late_ns: int = 0) -> None:
        self.now = 0
        self.slept: list[int] = []
        self._late_ns = late_ns

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds * 1e9))
        self.now += self.slept[-1] + self._late_ns


def slowed(clock: Clock, **straggler: Any) -> tuple[Recording, Recorder, Straggler]:
    """A worker's record by this clock, slowed."""
    recorder = Recorder(0, "worker 0", lambda: clock.now, None, flush_s=3600)
    recording = Recording(recorder, lambda: clock.now)
    found = Straggler(
        Slowness(StragglerSpec(worker=0, **straggler), seed=0),
        lambda: recording.step,
        lambda: clock.now,
        sleep=clock.sleep,
        now_ns=lambda: clock.now,
    )
    recording.slowing = found
    return recording, recorder, found


def test_every_span_of_a_pass_is_longer_and_nothing_else() -> None:
    clock = Clock()
    recording, recorder, straggler = slowed(clock, factor=3, pause_every_steps=1, pause_s=0.1)
    for step in range(2):
        recording.begin_step(step)
        clock.now += 7 * MS  # before the pass
        recording.begin_pass()
        recording.entering(0)
        clock.now += 1 * MS
        recording.entering(1)
        start_ns = clock.now
        clock.now += 50 * MS
        recording.waited(1, 0, start_ns)
        start = recording.mark()
        clock.now += 20 * MS
        recording.applied(1, start)
        clock.now += 2 * MS
        recording.end_forward()
        clock.now += 9 * MS  # between two passes
        recording.begin_pass()
        clock.now += 4 * MS
        recording.gradient(1)
        gradient_ns = clock.now
        clock.now += 5 * MS
        recording.end_backward()
        start = recording.mark()
        clock.now += 20 * MS
        recording.applied(0, start)
        recording.gradient(0)  # of a loss that differentiates by itself in an evaluation
        recording.end_step(samples=1, loss=0.0, end_ns=clock.now)
        assert clock.now - gradient_ns == 35 * MS
    events, steps = events_of(recorder)
    own = events[events["step"] == 0]
    spans = [(Kind(e["kind"]).name, int(e["end"] - e["start"]) // MS) for e in own]
    assert spans == [
        ("FORWARD", 3), ("WAIT", 50), ("UPDATE", 20), ("FORWARD", 6),
        ("BACKWARD", 12), ("BACKWARD", 15), ("UPDATE", 20),
    ]  # fmt: skip
    assert steps["exposed"].tolist() == [50 * MS] * 2
    assert np.diff(steps["compute"]).tolist() == [100 * MS], "the pause is computation"
    assert straggler.computed_ns == 2 * 12 * MS
    assert straggler.waited_ns == 2 * 24 * MS + 100 * MS
    assert sum(clock.slept) == straggler.waited_ns


def test_factors_that_are_multiplied_late_are_part_of_a_pass() -> None:
    clock = Clock()
    recording, recorder, straggler = slowed(clock, factor=2)
    recording.begin_step(0)
    start = recording.mark()
    clock.now += 3 * MS
    recording.multiplied(1, start)
    clock.now += 30 * MS
    recording.begin_pass()
    clock.now += 1 * MS
    recording.end_forward()
    events, _ = events_of(recorder)
    assert (events["end"] - events["start"]).tolist() == [6 * MS, 2 * MS]
    assert straggler.computed_ns == 4 * MS


def test_sleeps_that_end_late_and_short_ones_even_out() -> None:
    clock = Clock(late_ns=100_000)
    recording, _, straggler = slowed(clock, factor=2)
    recording.begin_step(0)
    recording.begin_pass()
    for layer in range(1000):
        clock.now += LEAST_NS // 4
        recording.entering(layer)
    recording.end_forward()
    assert straggler.computed_ns == 250 * LEAST_NS
    assert abs(straggler.waited_ns - straggler.computed_ns) <= LEAST_NS + 100_000
    assert len(clock.slept) < 250


def test_waits_inside_of_fsdps_passes_are_not_computed() -> None:
    clock, counts = computing_clock(torch.device("cpu"), sharded=True)
    assert not counts
    assert clock is not computing_clock(torch.device("cpu"), sharded=False)[0]
    assert computing_clock(torch.device("cpu"), sharded=False)[1]


def test_a_replayed_layer_is_waited_for_as_long_as_the_straggler_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the nanosecond, on a clock that only sleeps move."""
    clock = Clock()
    monkeypatch.setattr("engine.replay.device.time.monotonic_ns", lambda: clock.now)
    monkeypatch.setattr("engine.replay.device.time.sleep", clock.sleep)
    slowness = Slowness(StragglerSpec(worker=0, factor=2.5, pause_every_steps=2, pause_s=0.25), seed=0)
    steps: list[int] = []
    pace = Pace(longer=lengthening(slowness, lambda: len(steps) - 1))
    for step in range(3):
        steps.append(step)
        pace.begin()
        for _ in range(2):
            with pace.lasting(4e-3):
                clock.now += MS  # what making gradients takes is part of it
    assert clock.slept == [9 * MS] * 4 + [259 * MS, 9 * MS]
    assert clock.now == (6 * 10 + 250) * MS


def forward_and_backward_ns(run: Run, rank: int) -> int:
    """How long a worker's passes took, by its record."""
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool) if b.party == rank])
    passes = events[np.isin(events["kind"], [Kind.FORWARD, Kind.BACKWARD])]
    return int((passes["end"] - passes["start"]).sum())


EVERYWHERE: dict[str, dict[str, Any]] = {
    "parameter-server": {"split_over": 3000},
    "p3+late-multiply": {"slice_size": 500, "layers": "all"},
    "ring-allreduce-overlap": {},
    "parameter-averaging": {"period": 3},
    "ddp": {},
    "fsdp": {"group_bytes": 500},
    "hybrid": {"cut": "2"},
    "model-parallel": {},
}


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", EVERYWHERE)
def test_a_straggler_computes_the_same_in_more_time(strategy: str, tmp_path: Path) -> None:
    changes = {"strategy": {"name": strategy, "options": EVERYWHERE[strategy]}, "cluster": {"workers": 2}}
    training = {"steps": 6, "precision": "float64"}
    telemetry = {"detail": "all"}
    spec = job(**changes, faults=TWICE, training=training, telemetry=telemetry)
    run = succeed(spec, tmp_path / "slowed")
    if strategy == "parameter-averaging":
        plain = succeed(job(**changes, training=training), tmp_path / "plain")
        assert distance(run.state, plain.state) < 1e-12
    else:
        replicas = 1 if strategy == "model-parallel" else 2
        assert distance(run.state, reference(spec, replicas)) < 1e-12
    if counted_by_our_transport(run):
        assert counted_bytes(run) == declared_bytes(run)
    assert "slowed_ns" not in run.summary(0)
    computed_ns, slowed_ns = (run.summary(1)[name] for name in ("computed_ns", "slowed_ns"))
    assert computed_ns > 0
    assert slowed_ns >= computed_ns - LEAST_NS, "a sleep never ends early"
    assert forward_and_backward_ns(run, 1) >= slowed_ns, "all of it lies within passes"
    steps = np.concatenate([b.table("steps") for b in batches(run.launch.spool) if b.party == 1])
    assert (steps["compute"] + steps["exposed"] <= steps["end"] - steps["start"]).all(), (
        "nothing is counted twice"
    )


@pytest.mark.usefixtures("gang_lane")
def test_pauses_of_a_worker_that_drifts_are_computation(tmp_path: Path) -> None:
    faults = {"stragglers": [{"worker": 1, "factor": 1, "pause_every_steps": 2, "pause_s": 0.1}]}
    spec = job(
        strategy={"name": "async-sgd"}, cluster={"workers": 2}, faults=faults, telemetry={"detail": "all"}
    )
    run = succeed(spec, tmp_path)
    assert run.summary(1)["slowed_ns"] >= 4 * 100 * MS - LEAST_NS, "before steps 2, 4, 6 and 8"
    assert forward_and_backward_ns(run, 1) >= run.summary(1)["slowed_ns"]


def test_plans_say_it() -> None:
    spec = job(cluster={"workers": 2}, strategy={"name": "p3"}, faults=TWICE)
    assert spec.slowed in text(plan_of(spec), describe(spec), spec).splitlines()
