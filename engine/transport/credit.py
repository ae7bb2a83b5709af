"""Credit in bytes: the receiver, not the kernel's buffers, decides how much may be on its way.

A sender may start a message (or the next fragment of one) while its balance is positive, and pays for all of it, so
that the balance goes negative by at most one message and any size passes; something more urgent than what left last
may start without, one at a time. The receiver gives bytes back as they arrive, but only once the sender is about to
need them: what is on its way from one sender never exceeds its share of the receiver's window plus two messages, and
several senders that meet at one port cannot build a FIFO there. Everything begins at zero: the first grant is the
receiver's.

Bytes that arrived but were not handled yet count as arrived up to `backlog_bytes` per sender (they wait in
the lane's priority queue, where an urgent message overtakes them); beyond it they keep their credit until
they are handled. With `backlog_bytes=0` credit returns only when a message has been handled.

Pure state: no lock, no clock.
"""

from __future__ import annotations

from engine.transport.errors import ProtocolError

WINDOW_NS = 1_000_000
MIN_WINDOW_BYTES = 20 * 1024
"""More holds an urgent short slice up, less leaves a link idle while a grant travels: MEASUREMENTS.md, 43 and 49."""
MAX_WINDOW_BYTES = 2**20
MOST_CREDIT_BYTES = 2**48
"""A balance beyond this comes from no receiver."""
_MEMORY_NS = 5_000_000


class Window:
    """How many bytes pass in a short time, as measured while the path is busy.

    The receiver lets so many be on their way to it beyond one message per sender; the sender cuts messages into
    fragments of so many. Either fixed, or what passes in `time_ns` (between `least_bytes` and MAX_WINDOW_BYTES): enough
    to keep a fast path busy while a grant travels, and a short wait for an urgent message on a slow one.
    """

    __slots__ = ("_bytes", "_fixed_bytes", "_last_ns", "_least_bytes", "_ns", "_time_ns")

    def __init__(
        self,
        fixed_bytes: int | None = None,
        *,
        time_ns: int = WINDOW_NS,
        least_bytes: int = MIN_WINDOW_BYTES,
    ) -> None:
        if fixed_bytes is not None and fixed_bytes < 1:
            raise ValueError(f"credit_bytes = {fixed_bytes}: at least 1; None measures it")
        self._fixed_bytes = fixed_bytes
        self._time_ns = time_ns
        self._least_bytes = least_bytes
        self._bytes = 0
        self._ns = 0
        self._last_ns = 0

    def passed(self, count_bytes: int, now_ns: int, *, amid: bool) -> None:
        """`count_bytes` passed; `amid`: the path was busy before, so the time since the last ones counts."""
        if amid:
            self._bytes += count_bytes
            self._ns += now_ns - self._last_ns
            if self._ns > _MEMORY_NS:
                self._bytes //= 2
                self._ns //= 2
        self._last_ns = now_ns

    def share(self, senders: int) -> int:
        """The window of each of `senders` that send at the same time; at least one byte."""
        window = self._fixed_bytes
        if window is None:
            measured = self._bytes * self._time_ns // self._ns if self._ns else 0
            window = min(max(measured, self._least_bytes), MAX_WINDOW_BYTES)
        return max(window // max(senders, 1), 1)


class SenderCredit:
    """The sender's side: what it may still start."""

    __slots__ = ("_overdrawn", "balance_bytes")

    def __init__(self) -> None:
        self.balance_bytes = 0
        self._overdrawn = False

    def may_start(self) -> bool:
        """Whether another message, or fragment, may start now."""
        return self.balance_bytes > 0

    def may_interrupt(self) -> bool:
        """Whether something more urgent may start although the balance is used up: once, until it is not."""
        return not self._overdrawn

    def start(self, cost_bytes: int) -> None:
        """Of a message, or of its first or next fragment, `cost_bytes` start."""
        self._overdrawn |= self.balance_bytes <= 0
        self.balance_bytes -= cost_bytes

    def granted(self, count_bytes: int) -> None:
        """The receiver gave `count_bytes` back. Raises ProtocolError for what no receiver gives."""
        if not 0 <= count_bytes <= MOST_CREDIT_BYTES - self.balance_bytes:
            raise ProtocolError(f"credit of {count_bytes} bytes: out of step")
        self.balance_bytes += count_bytes
        self._overdrawn &= self.balance_bytes <= 0


class ReceiverCredit:
    """The receiver's side of one sender's credit: what to give back, and when it is worth a control frame."""

    __slots__ = ("announced", "arrived", "backlog_bytes", "granted", "handled", "last", "unfinished")

    def __init__(self, backlog_bytes: int) -> None:
        if backlog_bytes < 0:
            raise ValueError(f"backlog_bytes = {backlog_bytes}: at least 0, which waits for the handler")
        self.backlog_bytes = backlog_bytes
        self.announced = 0
        """Bytes that the headers seen until now announce."""
        self.last = 0
        """Of them, the last header's."""
        self.arrived = 0
        """Bytes taken from the kernel."""
        self.unfinished = 0
        """Bytes in whole fragments of messages that have not ended: they cannot be handled yet, so that to withhold
        credit for them would wait for ever."""
        self.handled = 0
        """Bytes of all messages whose handler has returned."""
        self.granted = 0
        """Bytes given back so far, the first window included."""

    def announce(self, count_bytes: int) -> None:
        """A header says that `count_bytes` come, its own included: a message, or one fragment."""
        self.announced += count_bytes
        self.last = count_bytes

    def on_its_way(self) -> int:
        """Bytes announced by headers and not yet arrived."""
        return self.announced - self.arrived

    def withheld(self) -> bool:
        """Whether some credit waits for messages to be handled."""
        return self._unhandled() > self.backlog_bytes

    def _unhandled(self) -> int:
        return self.arrived - self.unfinished - self.handled

    def take_grant(self, window_bytes: int, *, alone: bool) -> int:
        """Bytes to give back now, 0 if none, for a sender whose share of the window is `window_bytes`.

        A blocked sender is let go on as soon as less than its window is on its way or held up. One that is not
        blocked is topped up in halves, so that small messages do not cost a control frame each; but not where one
        message fills its share: it may start one already, and the frame would let nothing else start. One that sends
        `alone` is topped up in any case: what it starts next may be short, as the rest of a message in fragments is,
        and then nobody else fills the port until the grant after it has travelled.
        """
        held = max(self._unhandled() - self.backlog_bytes, 0)
        balance = self.granted - self.announced
        wanted = window_bytes - self.on_its_way() - held
        grant = wanted - balance
        tops_up = (alone or window_bytes > self.last) and 2 * grant >= window_bytes
        if grant <= 0 or not (tops_up if balance > 0 else wanted > 0):
            return 0
        self.granted += grant
        return grant
