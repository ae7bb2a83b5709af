"""What waits for one peer, and what of it leaves next: a heap of messages, of which one at a time is on its way.

A message that something more urgent could overtake leaves in fragments, each as long as what leaves in two
milliseconds (64 KiB where that is more, and where a pacer sets the pace). Each needs credit, so that senders that meet
at a port do not fill its queue with long messages. What is more urgent than the last one goes between two fragments or
messages, the first one even without credit. Cost: a header and a share of a credit frame for each fragment, and the I/O
threads of both sides wake for each.

Pure state: no socket and no clock, so that the same code orders a connection's messages and a virtual link's.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from engine.transport.credit import SenderCredit, Window
from engine.transport.message import Header
from engine.transport.queue import PriorityQueue

MOST_URGENT = 0
"""Nothing of size overtakes this priority: first come, first served is one class of it."""

_NOTHING_YET = -(2**31)
"""As urgent as can be: nothing goes before the first grant."""

FRAGMENT_NS = 2_000_000
LEAST_FRAGMENT_BYTES = 64 * 1024
"""Shorter ones cost more processor time than they save waiting: see MEASUREMENTS.md, 19."""


class Leaving(Protocol):
    """A message that can leave in fragments."""

    header: Header
    fragment_left: int

    @property
    def left_bytes(self) -> int: ...

    @property
    def start_bytes(self) -> int: ...

    @property
    def interruptible_now(self) -> bool: ...

    def cut(self, fragment_bytes: int) -> None: ...

    def go_on(self, fragment_bytes: int) -> None: ...


Item = TypeVar("Item", bound=Leaving)


class Backlog(Generic[Item]):
    """In (priority, sequence) order. Any thread may `put`; one alone asks and takes."""

    def __init__(self, credit: SenderCredit, interrupted: Callable[[Item], None]) -> None:
        """`interrupted` is told of a message before another one goes in front of its rest."""
        self.credit = credit
        self.passed = Window(time_ns=FRAGMENT_NS, least_bytes=LEAST_FRAGMENT_BYTES)
        """How much leaves while something is under way, waits for credit included: what is never measured as soon as
        fragments are short would keep them short."""
        self.current: Item | None = None
        self._tell = interrupted
        self._lock = Lock()
        self._queue: PriorityQueue[Item] = PriorityQueue()
        self._interrupted: list[Item] = []
        """The most urgent last."""
        self._dropped = False
        self._last = _NOTHING_YET
        """Priority of what began or went on last: what the receiver's credit is used up by."""

    def put(self, message: Item) -> bool:
        """Queue a message; answers whether who takes may be asleep although it can leave: the queue was empty, or the
        others wait for credit, which this more urgent one does not need."""
        priority = message.header.priority
        with self._lock:
            if self._dropped:
                return False
            self._queue.push(priority, message)
            if len(self._queue) == 1:
                return True
            current = self.current  # who takes may end it meanwhile
            between = current is None or current.interruptible_now
            return between and priority < self._last and self._queue.peek() is message

    def drop(self) -> None:
        """Nobody is there any more for what waits, or is put from now on. Called by who takes."""
        with self._lock:
            self._dropped = True
            self._queue.clear()
            self._interrupted.clear()
            self.current = None

    def empty(self) -> bool:
        """Whether everything queued has left."""
        with self._lock:
            return self.current is None and not self._interrupted and not self._queue

    def urgency(self) -> int | None:
        """Priority of what may leave now; None where nothing waits or the credit is used up."""
        # Only one thread takes from the queue: no lock to look.
        waiting = self._queue.next_priority() if self._queue else None
        current = self.current
        if current is not None and not current.interruptible_now:
            return current.header.priority
        if not self.credit.may_start():
            return waiting if self._may_interrupt() else None
        if current is None:
            return self._interrupted[-1].header.priority if self._goes_on_first() else waiting
        own = current.header.priority
        return own if waiting is None else min(waiting, own)

    def next_bytes(self) -> int:
        """At most what would leave now; asking does not settle which message that is."""
        with self._lock:
            if self.urgency() is None:
                return 0
            waiting = self._queue.peek().left_bytes if self._queue else 0
        standing = self.current or (self._interrupted[-1] if self._interrupted else None)
        return max(waiting, standing.left_bytes if standing is not None else 0)

    def choose(self) -> Item | None:
        """What leaves now, a fragment of it where it has several; None where nothing may. It is `current` until its
        last byte has left (`ended`), or until something goes in front of its rest."""
        current = self.current
        if current is not None and not current.interruptible_now:
            return current
        with self._lock:
            if self._may_interrupt():
                if current is not None:
                    self._tell(current)
                    self._interrupted.append(current)
                self.current = self._queue.pop()
            elif not self.credit.may_start():
                return None
            elif current is None:
                if self._goes_on_first():
                    self.current = self._interrupted.pop()
                elif self._queue:
                    self.current = self._queue.pop()
                else:
                    return None
        chosen = self.current
        assert chosen is not None
        self._last = chosen.header.priority
        if chosen.interruptible_now:
            chosen.go_on(self.passed.share(1))
            self.credit.start(chosen.fragment_left)
        else:
            if chosen.header.priority > MOST_URGENT:
                chosen.cut(self.passed.share(1))
            self.credit.start(chosen.start_bytes)
        return chosen

    def ended(self) -> None:
        """The last byte of `current` has left."""
        self.current = None

    def _may_interrupt(self) -> bool:
        """Whether something waits that is more urgent than what left last, and may leave."""
        if not self._queue or self._queue.next_priority() >= self._last:
            return False
        return self.credit.may_start() or self.credit.may_interrupt()

    def _goes_on_first(self) -> bool:
        """Whether what was interrupted last goes before what waits."""
        return bool(self._interrupted) and not (
            self._queue and self._queue.next_priority() < self._interrupted[-1].header.priority
        )
