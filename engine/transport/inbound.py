"""The receiving half of one data connection: bytes go from the kernel straight to where they belong."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from engine.transport.buffers import ScratchPool
from engine.transport.credit import ReceiverCredit
from engine.transport.errors import ProtocolError
from engine.transport.lane import Delivery, Lane
from engine.transport.message import HEADER_BYTES, Header, decode
from engine.transport.observer import Watch

_VIEWS = 64
_UNKNOWN = -(2**31)
_LUMP_BYTES = 64 * 1024


class Inbox:
    """Reads messages from one peer and queues them in their lanes. Used by the I/O thread only."""

    def __init__(
        self,
        sock: socket.socket,
        peer: int,
        *,
        lanes: Mapping[int, Lane],
        pool: ScratchPool,
        handled: Callable[[int, int], None],
        credit: ReceiverCredit,
        watch: Watch,
    ) -> None:
        self.credit = credit
        self._sock = sock
        self._peer = peer
        self._lanes = lanes
        self._pool = pool
        self._handled = handled
        self._counters = watch.counters
        self._clock = watch.clock
        self._observer = watch.observer
        self._fixed = memoryview(bytearray(HEADER_BYTES))
        self._fixed_got = 0
        self._meta = memoryview(b"")
        self._meta_got = 0
        self._header: Header | None = None
        self._next: Header | None = None
        """The header that has come, while its meta has not."""
        self._scratch: memoryview | None = None
        self._targets: list[memoryview] = []
        self._payload_left = 0
        self._start_ns = 0
        self._low_water = 1
        self.drained = True
        """Whether the last `read` took all that the kernel had."""

    def in_message(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._header is not None or self._fixed_got > 0

    def urgency(self) -> int:
        """Priority of the message under way; where the next header has not been read, as urgent as can be."""
        return _UNKNOWN if self._header is None else self._header.priority

    def next_bytes(self, limit_bytes: int) -> int:
        """What the next `read` can use: the rest of the message and a header, at most the limit."""
        return min(self._payload_left + HEADER_BYTES, limit_bytes)

    def read(self, limit_bytes: int) -> int | None:
        """Take at most about `limit_bytes` from the kernel; answers how many, None at the end of the stream.

        Raises OSError on a broken connection, ProtocolError for bytes that make no sense.
        """
        targets = self._next_targets(limit_bytes)
        try:
            count = self._sock.recvmsg_into(targets)[0]
        except BlockingIOError:
            self.drained = True
            return 0
        self.drained = count < sum(map(len, targets))
        if count == 0:
            return None
        self._take(count)
        return count

    def wake_after(self, share_bytes: int) -> None:
        """Let the kernel wake us when there is something to do: when less than `share_bytes` of the message are left,
        because then its sender needs credit, and when it is complete; not for every packet. Long ones in pieces,
        so that bytes are counted where they come."""
        left = self._payload_left if self._header is not None else 0
        wanted = left if left < share_bytes else left - share_bytes + 1
        wanted = min(max(wanted, 1), _LUMP_BYTES)
        if wanted != self._low_water:
            self._low_water = wanted
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)

    def read_on(self, limit_bytes: int) -> int | None:
        """Read after read until the kernel has no more, or at least `limit_bytes` have come; as `read`."""
        total = 0
        while total < limit_bytes:
            count = self.read(limit_bytes)
            if count is None:
                return total or None  # what has come is accounted for first; the end will be seen again
            total += count
            if self.drained:
                break
        return total

    def _next_targets(self, limit_bytes: int) -> list[memoryview]:
        if self._header is None:
            if self._fixed_got < HEADER_BYTES:
                return [self._fixed[self._fixed_got :]]
            return [self._meta[self._meta_got :]]
        room = limit_bytes
        views: list[memoryview] = []
        for view in self._targets[:_VIEWS]:
            if len(view) > room:
                views.append(view[:room])
                return views
            room -= len(view)
            views.append(view)
        if len(views) == len(self._targets):
            views.append(self._fixed)  # the next header comes with the end of this payload
        return views

    def _take(self, count: int) -> None:
        """Advance through header, meta and payload by `count` received bytes."""
        overhead = payload = 0
        layer = self._header.layer if self._header is not None else -1
        while count:
            if self._header is not None:
                step = min(count, self._payload_left)
                payload += step
                self.credit.arrived += step
                self._advance_payload(step)
            elif self._fixed_got < HEADER_BYTES:
                if self._fixed_got == 0:
                    self._start_ns = self._clock.now_ns()
                step = min(count, HEADER_BYTES - self._fixed_got)
                overhead += step
                self._fixed_got += step
                if self._fixed_got == HEADER_BYTES:
                    self._fixed_complete()
            else:
                step = min(count, len(self._meta) - self._meta_got)
                overhead += step
                self.credit.arrived += step
                self._meta_got += step
                if self._meta_got == len(self._meta):
                    assert self._next is not None
                    self._begin(self._next._replace(meta=bytes(self._meta)))
            count -= step
        self._counters.received(self._peer, layer, payload, overhead)

    def _fixed_complete(self) -> None:
        self._next, size = decode(self._fixed)
        self.credit.announced += self._next.wire_bytes + size
        self.credit.arrived += HEADER_BYTES
        if size:
            self._meta, self._meta_got = memoryview(bytearray(size)), 0
        else:
            self._begin(self._next)

    def _begin(self, header: Header) -> None:
        """The header is complete: find the place of its payload."""
        lane = self._lanes.get(header.lane)
        if lane is None:
            raise ProtocolError(f"{header} is for lane {header.lane}; registered: {sorted(self._lanes)}")
        self._header = header
        self._payload_left = header.payload_bytes
        self._scratch, self._targets = None, []
        if header.payload_bytes:
            placed = lane.place(header)
            if placed is None:
                self._scratch = self._pool.take(header.payload_bytes)
                self._targets = [self._scratch[: header.payload_bytes]]
            else:
                self._targets = [view.cast("B") for view in placed if view.nbytes]
                total = sum(map(len, self._targets))
                if total != header.payload_bytes:
                    raise ProtocolError(f"{header}: its place has {total} bytes, not {header.payload_bytes}")
        else:
            self._finish()

    def _advance_payload(self, count: int) -> None:
        self._payload_left -= count
        passed = 0
        while count:
            view = self._targets[passed]
            if count < len(view):
                self._targets[passed] = view[count:]
                break
            count -= len(view)
            passed += 1
        del self._targets[:passed]
        if self._payload_left == 0:
            self._finish()

    def _finish(self) -> None:
        """The message is complete: hand it to its lane and wait for the next header."""
        header, scratch = self._header, self._scratch
        assert header is not None
        self._header, self._scratch, self._fixed_got = None, None, 0
        cost, peer, handled = header.wire_bytes, self._peer, self._handled
        self._observer.received(header, peer, self._start_ns, self._clock.now_ns(), wire=True)
        payload = None if scratch is None else scratch[: header.payload_bytes]
        self._lanes[header.lane].put(Delivery(header, payload, scratch, lambda: handled(peer, cost)))
