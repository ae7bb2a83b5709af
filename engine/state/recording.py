"""What the runtime says about itself: spans of computation, waits, messages, server work.

Compute spans tile each pass: a layer's forward span lasts until the next layer with parameters begins, and its
backward span ends when its last gradient is there, so that time in layers without parameters (activations,
pooling) is booked on a neighbour and nothing is lost. On CUDA they are measured by events, on the device's clock, and
recorded when the device has passed them; everything else has the host's times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.order.keys import rank_in_step
from engine.state.memory_record import MemoryRecord
from engine.state.whereabouts import (
    BACKWARD,
    BEFORE,
    BETWEEN,
    FORWARD,
    READING,
    UPDATING,
    WAITING,
    Spot,
    Whereabouts,
)
from engine.telemetry.events import NONE, Clock, Kind, Track
from engine.telemetry.recorder import Recorder
from engine.telemetry.span_clock import HostClock, Mark, SpanClock, host_ns
from engine.transport.message import Header

if TYPE_CHECKING:
    from engine.protocol.instructions import Part
    from engine.state.choice import Choice


_UNSAID = nullcontext()


class Slowing(Protocol):
    """What makes the passes of a worker take longer, told by the training thread of all that it does."""

    def begins(self) -> None:
        """A pass begins."""
        ...

    def ends(self) -> None:
        """It has ended, and all of it has been stretched."""
        ...

    def interrupted(self) -> None:
        """Something that belongs to no pass begins."""
        ...

    def goes_on(self) -> None:
        """... and has ended."""
        ...

    def waited(self, duration_ns: int) -> None:
        """So long until now the pass has waited for others."""
        ...

    def stretch(self) -> None:
        """A part of a pass has been computed, in it or later. Returns when a worker as slow as this would have done
        so."""
        ...


class AsItIs:
    """Nothing is made longer."""

    def begins(self) -> None: ...
    def ends(self) -> None: ...
    def interrupted(self) -> None: ...
    def goes_on(self) -> None: ...
    def waited(self, duration_ns: int) -> None: ...
    def stretch(self) -> None: ...


@dataclass(kw_only=True)
class _Step:
    """What is known so far of one step."""

    step: int
    start_ns: int
    exposed_ns: int = 0
    compute_ns: int = 0
    input_ns: int = 0
    open: int = 1
    """Spans of which the times are not known yet, and the step's end."""
    end_ns: int = 0
    samples: int = 0
    loss: float = math.nan


class Recording:
    """One process's events. The compute methods belong to the training thread; the others to any. What memory
    mechanisms do is told to `memory`."""

    def __init__(self, recorder: Recorder, now_ns: Callable[[], int]) -> None:
        self.recorder = recorder
        self.now_ns = now_ns
        self.spans: SpanClock = HostClock(now_ns)
        """Who says how long what is computed took."""
        self.slowing: Slowing = AsItIs()
        self.memory = MemoryRecord(self)
        self.whereabouts: Whereabouts | None = None
        """Where others find where this one is; None: nowhere."""
        self._layer = NONE
        self._mark: Mark = 0
        self._now = _Step(step=0, start_ns=0)
        self._part = BEFORE

    @property
    def step(self) -> int:
        """The one under way."""
        return self._now.step

    @property
    def where(self) -> Spot:
        """Where the training thread is."""
        return Spot(self._part, self._layer, self.step)

    @property
    def in_backward(self) -> bool:
        """A backward pass is going on."""
        return self._part == BACKWARD

    @property
    def exposed_ns(self) -> int:
        """Of the step under way, so far."""
        return self._now.exposed_ns

    # --- the training thread ---

    def begin_step(self, step: int) -> None:
        self.spans.resolve()
        self._now = _Step(step=step, start_ns=self.now_ns())
        self.at(READING)

    def end_step(self, *, samples: int, loss: float, end_ns: int) -> None:
        """`loss`: the mean over this worker's samples of the step."""
        now = self._now
        now.samples, now.loss, now.end_ns = samples, loss, end_ns
        self._close(now)
        # What comes before the next step is an event of this one, and not in its row.
        self._now = _Step(step=now.step, start_ns=now.start_ns, exposed_ns=now.exposed_ns)
        self.at(WAITING)

    def close(self) -> None:
        """Nothing more is computed."""
        self.spans.resolve(last=True)

    def _close(self, step: _Step) -> None:
        """One of those that were open is not any more; the last one completes the step."""
        step.open -= 1
        if step.open == 0:
            self.recorder.step(
                step.step,
                start=step.start_ns,
                end=step.end_ns,
                samples=step.samples,
                loss=step.loss,
                exposed=step.exposed_ns,
                compute=step.compute_ns,
                input=step.input_ns,
            )

    @contextmanager
    def input(self) -> Iterator[None]:
        """Around waiting for the step's data."""
        start_ns = self.now_ns()
        yield
        end_ns = self.now_ns()
        self._now.input_ns += end_ns - start_ns
        self.recorder.event(Kind.INPUT, Track.INPUT, step=self.step, start=start_ns, end=end_ns)

    def begin_pass(self, *, backward: bool = False) -> None:
        """A forward or backward pass begins."""
        self.spans.caught_up()
        self._mark = self.spans.mark()
        self.at(BACKWARD if backward else FORWARD)
        if not backward:
            self.memory.begin_forward()
        self.slowing.begins()

    def caught_up(self) -> None:
        """The host has read something that was computed, and so waited for it."""
        self.spans.caught_up()

    def mark(self) -> Mark:
        """Where a span of something else than a pass begins."""
        self.slowing.interrupted()
        return self.spans.mark()

    def entering(self, layer: int) -> None:
        """Forward reaches `layer`: the one before it has ended."""
        self.until_now(Kind.FORWARD, self._layer)
        self.memory.entering()
        self.at(FORWARD, layer)

    def waited(self, layer: int, unit: int, start_ns: int) -> None:
        """Nothing was computed since `start_ns` because `unit` of `layer` had not arrived."""
        end_ns = self.now_ns()
        self._now.exposed_ns += end_ns - start_ns
        self.slowing.waited(end_ns - start_ns)
        self.recorder.event(
            Kind.WAIT, Track.COMPUTE, step=self.step, layer=layer, unit=unit, start=start_ns, end=end_ns
        )
        self.spans.caught_up()
        self._mark = self.spans.mark()

    def applied(self, layer: int, start: Mark) -> None:
        """The worker has updated `layer`; NONE: several at once."""
        self._since(start, Kind.UPDATE, layer)
        self.slowing.goes_on()

    def averaged(self, layer: int, start: Mark) -> None:
        """The worker has taken the averaged step of `layer`."""
        self._since(start, Kind.AVERAGE, layer)
        self.slowing.goes_on()

    def multiplied(self, layer: int, start: Mark) -> None:
        """The worker has multiplied the factors of `layer`: the part of a backward pass that was left for later."""
        self.slowing.stretch()
        self._since(start, Kind.BACKWARD, layer)

    def end_forward(self) -> None:
        self.until_now(Kind.FORWARD, self._layer)
        self.memory.end_forward()
        self.at(BETWEEN)
        self.slowing.ends()

    def gradient(self, layer: int) -> None:
        """Backward has computed the last gradient of `layer`."""
        self.until_now(Kind.BACKWARD, layer)
        if self.in_backward:
            self.at(BACKWARD, layer)

    def end_backward(self) -> None:
        self.until_now(Kind.BACKWARD, NONE)
        self.at(UPDATING)
        self.slowing.ends()

    def at(self, part: str, layer: int = NONE) -> None:
        """What the training thread is at now: see `where`."""
        self._part, self._layer = part, layer
        if self.whereabouts is not None:
            self.whereabouts.put(part, layer, self.step)

    def goes_on_from(self, mark: Mark) -> None:
        """What is computed from here on begins at `mark`, and not with the end of the span before."""
        self._mark = mark

    def collectives_awaited(self) -> None:
        """Backward has ended, and since its last gradient nothing was computed: collectives of no one layer were
        awaited."""
        self.waited(NONE, NONE, host_ns(self._mark))
        self.at(UPDATING)
        self.slowing.ends()

    def until_now(self, kind: Kind, layer: int, size: int = 0) -> None:
        """A span from the end of the one before."""
        self.slowing.stretch()
        self._since(self._mark, kind, layer, size)

    def _since(self, start: Mark, kind: Kind, layer: int, size: int = 0) -> None:
        self._mark = self.spans.mark()
        self._now.open += 1
        self.spans.span(start, self._mark, self._computed, (self._now, kind, layer, size))

    def _computed(self, what: tuple[_Step, Kind, int, int], start_ns: int, end_ns: int, clock: Clock) -> None:
        """The times of a span, of what kind, of which layer and of how many bytes, are known."""
        step, kind, layer, size = what
        if end_ns > start_ns:
            step.compute_ns += end_ns - start_ns
            self.recorder.event(
                kind,
                Track.COMPUTE,
                step=step.step,
                layer=layer,
                start=start_ns,
                end=end_ns,
                bytes=size,
                clock=clock,
            )
        self._close(step)

    # --- exchanges and servers ---

    def encoding(self, choice: Choice, step: int) -> AbstractContextManager[None]:
        """Around a codec's encode; the identity is not worth an event."""
        return _UNSAID if choice.lossless else self.coding(Kind.ENCODE, choice, step)

    def decoding(self, choice: Choice, step: int) -> AbstractContextManager[None]:
        """Around a codec's decode."""
        return _UNSAID if choice.lossless else self.coding(Kind.DECODE, choice, step)

    @contextmanager
    def coding(self, kind: Kind, choice: Choice, step: int) -> Iterator[None]:
        """Around a codec's work of that kind, whichever codec of the unit's it is."""
        start_ns = self.now_ns()
        yield
        self._server(kind, choice, step, NONE, start_ns)

    def reduced(self, choice: Choice, step: int, origin: int, start_ns: int) -> None:
        """A contribution has been added."""
        self._server(Kind.REDUCE, choice, step, origin, start_ns)

    def dropped(self, choice: Choice, step: int, origin: int, reason: str) -> None:
        """A contribution is applied never."""
        layer = choice.unit.layers[0]
        print(f"worker {origin}'s contribution to {layer} in step {step} was dropped: {reason}", flush=True)

    def updated(self, choice: Choice, step: int, start_ns: int) -> None:
        """A server has updated a unit."""
        self._server(Kind.UPDATE, choice, step, NONE, start_ns)

    def applied_late(self, choice: Choice, parts: Iterable[Part]) -> None:
        """A server has updated a unit with these contributions, or a worker its own, each of which may be stale."""
        now_ns, count = self.now_ns(), self.recorder.staleness.count
        for part in parts:
            count(choice.layer_index, part.rank, part.staleness, now_ns)

    def collective(self, choice: Choice, step: int, start_ns: int, size: int) -> None:
        """A native collective on a buffer of `size` bytes has ended. What it moved is the kernel's to count."""
        self.recorder.event(
            Kind.REDUCE,
            Track.SERVER,
            step=step,
            layer=choice.layer_index,
            unit=choice.unit.index,
            start=start_ns,
            end=self.now_ns(),
            bytes=size,
        )

    def _server(self, kind: Kind, choice: Choice, step: int, peer: int, start_ns: int) -> None:
        self.recorder.event(
            kind,
            Track.SERVER,
            step=step,
            layer=choice.layer_index,
            unit=choice.unit.index,
            peer=peer,
            priority=rank_in_step(choice.priority(step)),
            start=start_ns,
            end=self.now_ns(),
        )

    # --- the transport's observer ---

    def sent(
        self, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int, *, wire: bool
    ) -> None:
        if wire and header.layer >= 0 and header.payload_bytes:
            self._message(Kind.SEND, Track.SEND, header, peer, queued_ns, start_ns, end_ns)

    def received(self, header: Header, peer: int, start_ns: int, end_ns: int, *, wire: bool) -> None:
        if wire and header.layer >= 0 and header.payload_bytes:
            self._message(Kind.RECEIVE, Track.RECEIVE, header, peer, header.queued_ns, start_ns, end_ns)

    def _message(
        self, kind: Kind, track: Track, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int
    ) -> None:
        self.recorder.event(
            kind,
            track,
            step=header.step,
            layer=header.layer,
            unit=header.unit,
            peer=peer,
            priority=rank_in_step(header.priority),
            queued=queued_ns,
            start=start_ns,
            end=end_ns,
            bytes=header.payload_bytes,
        )
