"""What a worker's memory does, as events: bytes that leave for a second tier and come back, forward passes that are
computed again, and what each layer has in memory for backward when that begins.

The last is counted in two ways. Where the device has an allocator that counts (CUDA), what was allocated is read before
each layer's forward pass: what a layer, and whatever follows it up to the next one, leaves allocated is its own. That
takes some microseconds for each layer, so it is done about once a second. PyTorch's allocator of the host counts
nothing: there only what the memory mechanisms themselves have kept is known, of their own layers, in every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.state.told import Again, Moving, Transit
from engine.state.whereabouts import AGAIN
from engine.telemetry.events import NONE, Clock, Kind, Track
from engine.telemetry.span_clock import Mark, host_ns

if TYPE_CHECKING:
    from engine.state.recording import Recording

WEIGHED_NS = 1_000_000_000


class MemoryRecord:
    """See Told. The training thread's, but for what says that it is any thread's."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.transit = Transit()
        self.now_ns = recording.now_ns
        self.allocated: Callable[[], int] | None = None
        """Bytes that the device's allocator has given out; None where it does not count."""
        self._stay: Counter[int] = Counter()
        """Bytes of each layer, in the forward pass under way."""
        self._weighed_ns: int | None = None
        """When a pass was weighed last."""
        self._weight: int | None = None
        """What was allocated when the layer under way was reached; None where this pass is not weighed."""

    def mark(self) -> Mark:
        """See Told."""
        return self._recording.spans.mark()

    @contextmanager
    def recomputing(self, layer: int) -> Iterator[Again]:
        """See Told. What fails in it leaves the recording there."""
        recording, again = self._recording, Again()
        recording.until_now(Kind.BACKWARD, NONE)
        before = recording.where
        recording.at(AGAIN, layer)
        try:
            yield again
            recording.at(before.part, before.layer)
        finally:
            recording.until_now(Kind.RECOMPUTE, layer, again.bytes)

    def stays(self, layer: int | None, count: int) -> None:
        """See Told."""
        if self._weight is None:
            self._stay[self._recording.where.layer if layer is None else layer] += count

    def leaves(self, count: int) -> Moving:
        """See Told."""
        recording = self._recording
        return Moving(step=recording.step, layer=recording.where.layer, bytes=count, queued_ns=self.now_ns())

    def swapped(self, kind: Kind, moving: Moving, queued_ns: int, start: Mark, end: Mark) -> None:
        """See Told."""
        what = kind, Track.MEMORY, moving, queued_ns
        if isinstance(start, int):
            self._record(what, start, host_ns(end), Clock.HOST)
        else:
            self._recording.spans.span(start, end, self._record, what)

    @contextmanager
    def awaiting(self, moving: Moving) -> Iterator[None]:
        """See Told. In backward, what was computed so far was the layer's, and the wait is no part of that."""
        recording = self._recording
        backward = recording.in_backward
        if backward:
            recording.until_now(Kind.BACKWARD, moving.layer)
        start = self.mark()
        yield
        end = self.mark()
        if backward:
            recording.slowing.waited(host_ns(end) - host_ns(start))
            recording.goes_on_from(end)
        recording.spans.span(start, end, self._record, (Kind.SWAP_IN, Track.COMPUTE, moving, NONE))

    def begin_forward(self) -> None:
        """A forward pass begins."""
        self._stay.clear()
        due = self._weighed_ns is None or self.now_ns() - self._weighed_ns >= WEIGHED_NS
        if self.allocated is not None and due:
            self._weighed_ns, self._weight = self.now_ns(), self.allocated()

    def entering(self) -> None:
        """What was computed so far belongs to the layer before."""
        if self._weight is not None and self.allocated is not None:
            now = self.allocated()
            self._stay[self._recording.where.layer] += now - self._weight
            self._weight = now

    def end_forward(self) -> None:
        """What stays is there, and backward is about to begin."""
        self.entering()
        self._weight = None
        now_ns = self.now_ns()
        for layer, count in self._stay.items():
            if count > 0:
                moving = Moving(step=self._recording.step, layer=layer, bytes=count, queued_ns=NONE)
                self._record((Kind.SAVED, Track.MEMORY, moving, NONE), now_ns, now_ns, Clock.HOST)
        self._stay.clear()

    def _record(
        self, what: tuple[Kind, Track, Moving, int], start_ns: int, end_ns: int, clock: Clock
    ) -> None:
        kind, track, moving, queued_ns = what
        self._recording.recorder.event(
            kind,
            track,
            step=moving.step,
            layer=moving.layer,
            queued=queued_ns,
            start=start_ns,
            end=max(start_ns, end_ns),
            bytes=moving.bytes,
            clock=clock,
        )
