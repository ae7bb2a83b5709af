"""The sending half of one data connection: what its backlog lets leave, given to the kernel."""

from __future__ import annotations

import socket

from engine.transport.backlog import Backlog
from engine.transport.credit import SenderCredit
from engine.transport.message import Outgoing
from engine.transport.observer import Watch


class Outbox:
    """What waits for one peer, and the socket to it.

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
        self._backlog: Backlog[Outgoing] = Backlog(credit, self._report)
        self._draining = False
        self.put = self._backlog.put
        self.drop = self._backlog.drop
        self.empty = self._backlog.empty
        self.urgency = self._backlog.urgency
        self.next_bytes = self._backlog.next_bytes

    def write(self, limit_bytes: int) -> int:
        """Give the kernel at most `limit_bytes` of what is most urgent; answers how many. Raises OSError."""
        message = self._backlog.choose()
        if message is None:
            return 0
        now_ns = self._clock.now_ns()
        try:
            count = self._sock.sendmsg(message.next_views(limit_bytes))
        except BlockingIOError:
            return 0
        self._backlog.passed.passed(count, now_ns, amid=self._draining)
        self._draining = False
        header = message.header
        if message.start_ns < 0:
            message.start_ns = now_ns  # of this run: an interrupted message begins another one
        payload = message.advance(count)
        self._counters.sent(self._peer, header.layer, payload, count - payload)
        if message.left_bytes == 0:
            self._backlog.ended()
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
            current = self._backlog.current
            if not count or current is not None:
                between = current is not None and current.interruptible_now
                self._draining = between or limit_bytes > count
                return self._draining
            limit_bytes -= count
        return False
