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
from typing import Any, NamedTuple, Protocol, TypeVar

from engine.telemetry.events import Clock

T = TypeVar("T")
Recorded = Callable[[T, int, int, Clock], None]
"""Is told of what it is, a span's start and end, in ns on the attempt's clock, and whose they are."""


class DeviceEvent(Protocol):
    """A place in a device's stream, such as a `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether the device has passed it."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this one to that one, of the same kind; both are passed."""
        ...


class Anchor(NamedTuple):
    """An event of which the time is known."""

    host_ns: int
    event: DeviceEvent


class DeviceMark(NamedTuple):
    """A moment between two spans that a device computes."""

    host_ns: int
    """When the host was there."""
    event: DeviceEvent
    anchor: Anchor
    """What the event is measured from."""


Mark = int | DeviceMark
"""A moment between two spans; by the host's clock just its time."""


def host_ns(mark: Mark) -> int:
    """When the host was there, in ns on the attempt's clock."""
    return mark if isinstance(mark, int) else mark.host_ns


class SpanClock(Protocol):
    """Marks moments, and says later how long it was from one to another."""

    def mark(self) -> Mark:
        """Now, in what the calling thread issues."""
        ...

    def span(self, start: Mark, end: Mark, recorded: Recorded[T], what: T) -> None:
        """Call `recorded` with the times of `what`, which was computed between these marks: now, or in a later
        `resolve`."""
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
        self.mark = now_ns

    def span(self, start: Mark, end: Mark, recorded: Recorded[T], what: T) -> None:
        """See SpanClock."""
        recorded(what, host_ns(start), host_ns(end), Clock.HOST)

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
        self._open: deque[tuple[DeviceMark, DeviceMark, Recorded[Any], Any]] = deque()
        self._anchor = Anchor(now_ns(), record())

    def mark(self) -> Mark:
        """See SpanClock."""
        return DeviceMark(self._now_ns(), self._record(), self._anchor)

    def span(self, start: Mark, end: Mark, recorded: Recorded[T], what: T) -> None:
        """See SpanClock."""
        assert isinstance(start, DeviceMark)
        assert isinstance(end, DeviceMark)
        self._open.append((start, end, recorded, what))

    def caught_up(self) -> None:
        """See SpanClock."""
        if self._idle():
            self._anchor = Anchor(self._now_ns(), self._record())

    def resolve(self, *, last: bool = False) -> None:
        """See SpanClock."""
        while self._open:
            start, end, recorded, what = self._open[0]
            known = _passed(start, quietly=last) and _passed(end, quietly=last)
            if not known and not last:
                return
            self._open.popleft()
            if known:
                start_ns = _device_ns(start)
                recorded(what, start_ns, max(start_ns, _device_ns(end)), Clock.CUDA)
            else:
                recorded(what, start.host_ns, end.host_ns, Clock.HOST)


def _passed(mark: DeviceMark, *, quietly: bool) -> bool:
    """Whether the device has; `quietly`: of one that fails, it has not."""
    try:
        return mark.event.query()
    except RuntimeError:
        if not quietly:
            raise
        return False


def _device_ns(mark: DeviceMark) -> int:
    return mark.anchor.host_ns + round(mark.anchor.event.elapsed_time(mark.event) * 1e6)
