"""The sending half of one data connection: a heap of messages, of which one at a time is on its way.

A message that something more urgent could overtake leaves in fragments, each as long as what leaves in two
milliseconds (64 KiB where that is more, and where a pacer sets the pace). Each needs credit, so that senders that meet
at a port do not fill its queue with long messages. What is more urgent than the last one goes between two fragments or
messages, the first one even without credit. Cost: a header and a share of a credit frame for each fragment, and the I/O
threads of both sides wake for each.
"""

from __future__ import annotations

import socket
from threading import Lock

from engine.transport.credit import SenderCredit, Window
from engine.transport.message import Outgoing
from engine.transport.observer import Watch
from engine.transport.queue import PriorityQueue

MOST_URGENT = 0
"""Nothing of size overtakes this priority: first come, first served is one class of it."""

_NOTHING_YET = -(2**31)
"""As urgent as can be: nothing goes before the first grant."""

FRAGMENT_NS = 2_000_000
LEAST_FRAGMENT_BYTES = 64 * 1024
"""Shorter ones cost more processor time than they save waiting: see MEASUREMENTS.md, 19."""


class Outbox:
    """What waits for one peer, in (priority, sequence) order.

    Any thread may `put`; the I/O thread alone asks and writes. The next message is chosen only when the
    socket is writable and the receiver's credit allows it, so that whatever is urgent by then leaves first.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer: int,
        *,
        credit: SenderCredit,
        watch: Watch,
    ) -> None:
        self.credit = credit
        self._sock = sock
        self._peer = peer
        self._counters = watch.counters
        self._clock = watch.clock
        self._observer = watch.observer
        self._lock = Lock()
        self._queue: PriorityQueue[Outgoing] = PriorityQueue()
        self._current: Outgoing | None = None
        self._interrupted: list[Outgoing] = []
        """The most urgent last."""
        self._last = _NOTHING_YET
        """Priority of what began or went on last: what the receiver's credit is used up by."""
        self._drain = Window(time_ns=FRAGMENT_NS, least_bytes=LEAST_FRAGMENT_BYTES)
        """How much leaves while something is under way, waits for credit included: what is never measured as soon as
        fragments are short would keep them short."""
        self._draining = False

    def put(self, message: Outgoing) -> bool:
        """Queue a message; answers whether the I/O thread may be asleep although it can leave: the queue was empty,
        or the others wait for credit, which this more urgent one does not need."""
        priority = message.header.priority
        with self._lock:
            self._queue.push(priority, message)
            if len(self._queue) == 1:
                return True
            current = self._current  # the I/O thread may end it meanwhile
            between = current is None or current.interruptible_now
            return between and priority < self._last and self._queue.peek() is message

    def empty(self) -> bool:
        """Whether everything queued has been given to the kernel."""
        with self._lock:
            return self._current is None and not self._interrupted and not self._queue

    def urgency(self) -> int | None:
        """Priority of what may be written now; None where nothing waits or the credit is used up."""
        # Only this thread takes from the queue: no lock to look.
        waiting = self._queue.next_priority() if self._queue else None
        current = self._current
        if current is not None and not current.interruptible_now:
            return current.header.priority
        if not self.credit.may_start():
            return waiting if self._may_interrupt() else None
        if current is None:
            return self._interrupted[-1].header.priority if self._goes_on_first() else waiting
        own = current.header.priority
        return own if waiting is None else min(waiting, own)

    def next_bytes(self) -> int:
        """At most what would be written now; asking does not settle which message that is."""
        with self._lock:
            if self.urgency() is None:
                return 0
            waiting = self._queue.peek().left_bytes if self._queue else 0
        standing = self._current or (self._interrupted[-1] if self._interrupted else None)
        return max(waiting, standing.left_bytes if standing is not None else 0)

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

    def _choose(self) -> Outgoing | None:
        current = self._current
        if current is not None and not current.interruptible_now:
            return current
        with self._lock:
            if self._may_interrupt():
                if current is not None:
                    self._report(current)
                    self._interrupted.append(current)
                self._current = self._queue.pop()
            elif not self.credit.may_start():
                return None
            elif current is None:
                if self._goes_on_first():
                    self._current = self._interrupted.pop()
                elif self._queue:
                    self._current = self._queue.pop()
                else:
                    return None
        chosen = self._current
        assert chosen is not None
        self._last = chosen.header.priority
        if chosen.interruptible_now:
            chosen.go_on(self._drain.share(1))
            self.credit.start(chosen.fragment_left)
        else:
            if chosen.header.priority > MOST_URGENT:
                chosen.cut(self._drain.share(1))
            self.credit.start(chosen.start_bytes)
        return chosen

    def write(self, limit_bytes: int) -> int:
        """Give the kernel at most `limit_bytes` of what is most urgent; answers how many. Raises OSError."""
        message = self._choose()
        if message is None:
            return 0
        now_ns = self._clock.now_ns()
        try:
            count = self._sock.sendmsg(message.next_views(limit_bytes))
        except BlockingIOError:
            return 0
        self._drain.passed(count, now_ns, amid=self._draining)
        self._draining = False
        header = message.header
        if message.start_ns < 0:
            message.start_ns = now_ns  # of this run: an interrupted message begins another one
        payload = message.advance(count)
        self._counters.sent(self._peer, header.layer, payload, count - payload)
        if message.left_bytes == 0:
            self._current = None
            self._report(message)
            if message.on_sent is not None:
                message.on_sent()
        return count

    def _report(self, message: Outgoing) -> None:
        """A message has left, or as much of it as before an interruption."""
        header = message.header
        if message.run_bytes != header.payload_bytes:
            header = header._replace(payload_bytes=message.run_bytes)
        now_ns = self._clock.now_ns()
        self._observer.sent(header, self._peer, header.queued_ns, message.start_ns, now_ns, wire=True)
        message.start_ns, message.run_bytes = -1, 0

    def write_on(self, limit_bytes: int) -> bool:
        """Message after message until the credit is used up, at least `limit_bytes` have left, a fragment has, or the
        kernel is full; answers whether to wait until the kernel has room. Raises OSError."""
        while limit_bytes > 0 and self.urgency() is not None:
            count = self.write(limit_bytes)
            if not count or self._current is not None:
                current = self._current
                between = current is not None and current.interruptible_now
                self._draining = between or limit_bytes > count
                return self._draining
            limit_bytes -= count
        return False
