"""The sending half of one data connection: a heap of messages, of which one at a time is on its way."""

from __future__ import annotations

import socket
from threading import Lock

from engine.transport.credit import SenderCredit
from engine.transport.message import Outgoing
from engine.transport.observer import Watch
from engine.transport.queue import PriorityQueue


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

    def put(self, message: Outgoing) -> bool:
        """Queue a message; answers whether the queue was empty, so that the I/O thread may sleep."""
        with self._lock:
            self._queue.push(message.header.priority, message)
            return len(self._queue) == 1

    def empty(self) -> bool:
        """Whether everything queued has been given to the kernel."""
        with self._lock:
            return self._current is None and not self._queue

    def urgency(self) -> int | None:
        """Priority of what may be written now; None where nothing waits or the credit is used up."""
        if self._current is not None:
            return self._current.header.priority
        if self._queue and self.credit.may_start():  # only this thread takes from it: no lock to look
            return self._queue.next_priority()
        return None

    def next_bytes(self) -> int:
        """What is left of the message that would be written now; asking does not settle which one that is."""
        if self._current is not None:
            return self._current.left_bytes
        with self._lock:
            return self._queue.peek().left_bytes if self._queue and self.credit.may_start() else 0

    def _choose(self) -> Outgoing | None:
        if self._current is None:
            with self._lock:
                if not self._queue or not self.credit.may_start():
                    return None
                self._current = self._queue.pop()
            self.credit.start(self._current.left_bytes)
        return self._current

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
        header = message.header
        if message.start_ns < 0:
            message.start_ns = now_ns
        payload = message.advance(count)
        self._counters.sent(self._peer, header.layer, payload, count - payload)
        if message.left_bytes == 0:
            self._current = None
            self._observer.sent(
                header, self._peer, header.queued_ns, message.start_ns, self._clock.now_ns(), wire=True
            )
            if message.on_sent is not None:
                message.on_sent()
        return count

    def write_on(self, limit_bytes: int) -> bool:
        """Message after message until the credit is used up, at least `limit_bytes` have left, or the kernel is
        full; answers whether it is. Raises OSError."""
        while limit_bytes > 0 and self.urgency() is not None:
            count = self.write(limit_bytes)
            if not count or self._current is not None:
                return limit_bytes > count
            limit_bytes -= count
        return False
