"""Spans that a device computes have its times, as soon as it has passed them, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from engine.state.recording import Recording
from engine.telemetry.batch import decode
from engine.telemetry.events import Clock, Kind
from engine.telemetry.recorder import Recorder
from engine.telemetry.span_clock import EventClock, host_ns

MS = 1_000_000


@dataclass
class Device:
    """A stream and its host, in ms. The device's own clock began at another time and is a hundredth slow."""

    now: float = 0.0
    """The host's clock."""
    busy_until: float = 0.0
    events: list[Event] = field(default_factory=list)
    broken: bool = False

    def issue(self, work: float) -> None:
        """The host asks for `work`, which takes so long once it is its turn; that takes the host 1 ms."""
        self.now += 1
        self.busy_until = max(self.busy_until, self.now) + work

    def record(self) -> Event:
        self.events.append(Event(self, max(self.busy_until, self.now)))
        return self.events[-1]

    def idle(self) -> bool:
        return self.busy_until <= self.now


@dataclass
class Event:
    """Passed by the device at a host's time."""

    device: Device
    at: float

    def query(self) -> bool:
        if self.device.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.at <= self.device.now

    def elapsed_time(self, end_event: Event) -> float:
        assert self.query()
        assert end_event.query(), "torch raises where the device has not passed it"
        return (end_event.at - self.at) * 0.99


def clocked(device: Device) -> tuple[EventClock, Callable[[], int]]:
    def now_ns() -> int:
        return round(device.now * MS)

    return EventClock(now_ns, device.record, device.idle), now_ns


def events_of(recorder: Recorder) -> tuple[np.ndarray, np.ndarray]:
    """(events, steps)"""
    recorder.close()
    batches = [decode(body) for body in recorder.memory]
    return tuple(np.concatenate([b.table(name) for b in batches]) for name in ("events", "steps"))  # type: ignore[return-value]


def test_a_span_has_the_devices_times_once_it_has_passed() -> None:
    device = Device(now=1_000, busy_until=1_000)
    clock, _ = clocked(device)
    found: list[tuple[str, int, int, Clock]] = []
    marks = [clock.mark()]
    for work in (100, 50):
        device.issue(work)
        marks.append(clock.mark())
    for start, end in pairwise(marks):
        clock.span(start, end, lambda what, *times: found.append((what, *times)), "a")
    assert [host_ns(mark) for mark in marks] == [1_000 * MS, 1_001 * MS, 1_002 * MS], "the host is ahead"
    clock.resolve()
    assert found == [], "the device is at it, and nobody waits"
    device.now = 1_120
    clock.resolve()
    first_end = 1_000 * MS + round(101 * 0.99 * MS)
    assert found == [("a", 1_000 * MS, first_end, Clock.CUDA)]
    device.now = 1_151
    clock.resolve()
    assert found[1:] == [("a", first_end, 1_000 * MS + round(151 * 0.99 * MS), Clock.CUDA)], "without a gap"


def test_the_clocks_meet_again_whenever_the_device_is_idle() -> None:
    device = Device()
    clock, _ = clocked(device)
    device.issue(10_000)
    clock.caught_up()
    busy = clock.mark()
    device.now = 20_000
    clock.caught_up()
    assert busy.anchor != clock.mark().anchor
    found: list[tuple[str, int, int, Clock]] = []
    start = clock.mark()
    device.issue(100)
    clock.span(start, clock.mark(), lambda what, *times: found.append((what, *times)), "a")
    device.now = 30_000
    clock.resolve()
    (_, drifted, _, _), = found  # fmt: skip
    assert drifted == 20_000 * MS, "from the newest anchor, not a hundredth of 20 s early"


@pytest.mark.parametrize("broken", [False, True])
def test_at_the_end_nothing_is_left_out(broken: bool) -> None:
    device = Device()
    clock, _ = clocked(device)
    found: list[tuple[str, int, int, Clock]] = []
    start = clock.mark()
    device.issue(100)
    clock.span(start, clock.mark(), lambda what, *times: found.append((what, *times)), "a")
    device.broken = broken
    if broken:
        with pytest.raises(RuntimeError, match="CUDA error"):
            clock.resolve()
    clock.resolve(last=True)
    assert found == [("a", 0, 1 * MS, Clock.HOST)], "the host's, and it says so"


def test_a_steps_row_waits_for_its_spans_and_has_the_devices_time() -> None:
    device = Device()
    clock, now_ns = clocked(device)
    recorder = Recorder(0, "worker 0", now_ns, None, flush_s=3600)
    recording = Recording(recorder, now_ns)
    recording.spans = clock
    for step in range(2):
        recording.begin_step(step)
        recording.begin_pass()
        recording.entering(0)
        device.issue(40)
        recording.entering(1)
        device.issue(60)
        recording.end_forward()
        start_ns = recording.now_ns()
        device.now += 5
        recording.waited(1, 7, start_ns)
        recording.end_step(samples=4, loss=0.5, end_ns=recording.now_ns())
        recorder.flush()
        rows = [row for body in recorder.memory for row in decode(body).table("steps")["step"].tolist()]
        assert rows == list(range(step)), "the device is still at this one"
        device.now = device.busy_until + 1
    recording.close()
    events, steps = events_of(recorder)
    forward = events[events["kind"] == Kind.FORWARD]
    assert forward["clock"].tolist() == [Clock.CUDA] * 4
    assert (forward["end"] - forward["start"]).tolist() == pytest.approx([0.99 * 41 * MS, 0.99 * 60 * MS] * 2)
    assert events["clock"][events["kind"] == Kind.WAIT].tolist() == [Clock.HOST] * 2
    assert steps["step"].tolist() == [0, 1]
    assert steps["compute"].tolist() == pytest.approx([0.99 * 101 * MS] * 2)
    assert steps["exposed"].tolist() == [5 * MS] * 2
    assert (steps["end"] - steps["start"]).tolist() == [7 * MS] * 2, "a step's own times are the host's"


def test_on_the_host_everything_is_known_at_once() -> None:
    device = Device()
    recorder = Recorder(0, "worker 0", lambda: round(device.now * MS), None, flush_s=3600)
    recording = Recording(recorder, lambda: round(device.now * MS))
    assert recording.mark() == 0
    recording.begin_step(0)
    start = recording.mark()
    device.now = 3
    recording.applied(2, start)
    recording.end_step(samples=1, loss=0.0, end_ns=recording.now_ns())
    start = recording.mark()
    device.now = 5
    recording.applied(2, start)
    events, steps = events_of(recorder)
    assert [(e["start"], e["end"], e["clock"]) for e in events] == [
        (0, 3 * MS, Clock.HOST),
        (3 * MS, 5 * MS, Clock.HOST),
    ]
    assert steps["compute"].tolist() == [3 * MS], "what comes after the step is an event, and not in its row"
