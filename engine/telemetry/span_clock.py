"""Which clock a span of computation has: the host's, or that of the device that computes.

A host that only issues work cannot tell how long the work takes. There each mark is an event in the device's stream,
and a span gets its times when the device has passed it; nobody ever waits for that. Events only know the time since one
another, so each is measured from an *anchor*: an event that was recorded while the device had nothing to do, which it
therefore passed at the host's time of recording. There is a new anchor whenever the device is found idle, so that the
two clocks do not drift apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from engine.telemetry.events import Clock

Recorded = Callable[[int, int, Clock], None]
"""Is told a span's start and end, in ns on the attempt's clock, and whose they are."""


class DeviceEvent(Protocol):
    """A place in a device's stream, such as a `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether the device has passed it."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this one to that one, of the same kind; both are passed."""
        ...


class Mark(NamedTuple):
    """A moment between two spans."""

    host_ns: int
    """When the host was there."""
    event: DeviceEvent | None = None
    anchor: Anchor | None = None
    """What the event is measured from; both None by the host's clock."""


class Anchor(NamedTuple):
    """An event of which the time is known."""

    host_ns: int
    event: DeviceEvent


class SpanClock(Protocol):
    """Marks moments, and says later how long it was from one to another."""

    def mark(self) -> Mark:
        """Now, in what the calling thread issues."""
        ...

    def span(self, start: Mark, end: Mark, recorded: Recorded) -> None:
        """Call `recorded` with the times of what was computed from `start` to `end`: now, or in a later `resolve`."""
        ...

    def caught_up(self) -> None:
        """The host may have found the device without work."""
        ...

    def resolve(self, *, last: bool = False) -> None:
        """Record what is known by now. `last`: what is not gets the host's times."""
        ...


class HostClock:
    """Whoever issues work computes it."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns

    def mark(self) -> Mark:
        """See SpanClock."""
        return Mark(self._now_ns())

    def span(self, start: Mark, end: Mark, recorded: Recorded) -> None:
        """See SpanClock."""
        recorded(start.host_ns, end.host_ns, Clock.HOST)

    def caught_up(self) -> None:
        """Nothing is to be caught up with."""

    def resolve(self, *, last: bool = False) -> None:
        """Nothing is left open."""


class EventClock:
    """A device computes what the host issues."""

    def __init__(
        self, now_ns: Callable[[], int], record: Callable[[], DeviceEvent], idle: Callable[[], bool]
    ) -> None:
        """`record()` puts an event into the stream that the calling thread issues work to; `idle()`: whether the device
        has passed everything in it. It is idle now."""
        self._now_ns = now_ns
        self._record = record
        self._idle = idle
        self._open: deque[tuple[Mark, Mark, Recorded]] = deque()
        self._anchor = Anchor(now_ns(), record())

    def mark(self) -> Mark:
        """See SpanClock."""
        return Mark(self._now_ns(), self._record(), self._anchor)

    def span(self, start: Mark, end: Mark, recorded: Recorded) -> None:
        """See SpanClock."""
        self._open.append((start, end, recorded))

    def caught_up(self) -> None:
        """See SpanClock."""
        if self._idle():
            self._anchor = Anchor(self._now_ns(), self._record())

    def resolve(self, *, last: bool = False) -> None:
        """See SpanClock."""
        while self._open:
            start, end, recorded = self._open[0]
            known = _passed(start, quietly=last) and _passed(end, quietly=last)
            if not known and not last:
                return
            self._open.popleft()
            if known:
                start_ns = _device_ns(start)
                recorded(start_ns, max(start_ns, _device_ns(end)), Clock.CUDA)
            else:
                recorded(start.host_ns, end.host_ns, Clock.HOST)


def _passed(mark: Mark, *, quietly: bool) -> bool:
    """Whether the device has; `quietly`: of one that fails, it has not."""
    assert mark.event is not None
    try:
        return mark.event.query()
    except RuntimeError:
        if not quietly:
            raise
        return False


def _device_ns(mark: Mark) -> int:
    assert mark.event is not None
    assert mark.anchor is not None
    return mark.anchor.host_ns + round(mark.anchor.event.elapsed_time(mark.event) * 1e6)
