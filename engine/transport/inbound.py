"""The receiving half of one data connection: bytes go from the kernel straight to where they belong."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from engine.transport.buffers import ScratchPool
from engine.transport.credit import ReceiverCredit
from engine.transport.errors import ProtocolError
from engine.transport.lane import Delivery, LaneQueue
from engine.transport.message import FRAGMENT_UNIT, HEADER_BYTES, Header, Start, decode, granted
from engine.transport.observer import Watch

_VIEWS = 64
_UNKNOWN = -(2**31)
_LUMP_BYTES = 64 * 1024


class _Incoming:
    """A message of which some has come."""

    __slots__ = ("header", "left", "run_left", "scratch", "start_ns", "targets", "unfinished")

    def __init__(
        self, header: Header, scratch: memoryview | None, targets: list[memoryview], start_ns: int
    ) -> None:
        self.header = header
        self.scratch = scratch
        self.targets = targets
        """Where the rest of the payload belongs."""
        self.left = header.payload_bytes
        """Bytes of payload that have not come."""
        self.run_left = header.payload_bytes
        """The same when it began, or went on after an interruption."""
        self.start_ns = start_ns
        self.unfinished = 0
        """What it adds to `ReceiverCredit.unfinished`."""


class Inbox:
    """Reads messages from one peer and queues them in their lanes. Used by the I/O thread only."""

    def __init__(
        self,
        sock: socket.socket,
        peer: int,
        *,
        lanes: Mapping[int, LaneQueue],
        pool: ScratchPool,
        handled: Callable[[int, int], None],
        granted: Callable[[int], None],
        credit: ReceiverCredit,
        watch: Watch,
    ) -> None:
        self.credit = credit
        self._sock = sock
        self._peer = peer
        self._lanes = lanes
        self._pool = pool
        self._handled = handled
        self._granted = granted
        self._counters = watch.counters
        self._clock = watch.clock
        self._observer = watch.observer
        self._fixed = memoryview(bytearray(HEADER_BYTES))
        self._fixed_got = 0
        self._meta = memoryview(b"")
        self._meta_got = 0
        self._start: Start | None = None
        """The header that has come, while its meta has not."""
        self._start_ns = 0
        self._current: _Incoming | None = None
        self._fragment_left = 0
        """Bytes of payload until the next header comes."""
        self._interrupted: list[_Incoming] = []
        """The most urgent last: it goes on first."""
        self._low_water = 1
        self.drained = True
        """Whether the last `read` took all that the kernel had."""

    def in_message(self) -> bool:
        """Whether a message is under way."""
        return self._current is not None or self._fixed_got > 0

    def urgency(self) -> int:
        """Priority of the message under way; before a header that has not been read, as urgent as can be."""
        return self._current.header.priority if self._current and self._fragment_left else _UNKNOWN

    def next_bytes(self, limit_bytes: int) -> int:
        """What the next `read` can use: the rest of the fragment and a header, at most the limit."""
        return min(self._fragment_left + HEADER_BYTES, limit_bytes)

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
        """Let the kernel wake us when there is something to do: when less than `share_bytes` of the fragment are
        left, because then its sender needs credit, and when it is complete; not for every packet. Long ones in pieces,
        so that bytes are counted where they come."""
        left = self._fragment_left
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
        if self._current is None or not self._fragment_left:
            if self._fixed_got < HEADER_BYTES:
                return [self._fixed[self._fixed_got :]]
            return [self._meta[self._meta_got :]]
        room = min(limit_bytes, self._fragment_left)
        views: list[memoryview] = []
        for view in self._current.targets[:_VIEWS]:
            if len(view) >= room:
                views.append(view[:room])
                room = 0
                break
            room -= len(view)
            views.append(view)
        if not room and limit_bytes >= self._fragment_left:
            views.append(self._fixed)  # the next header comes with the end of this fragment
        return views

    def _take(self, count: int) -> None:
        """Advance through header, meta and payload by `count` received bytes."""
        overhead = payload = 0
        layer = self._current.header.layer if self._current is not None else -1
        while count:
            if self._current is not None and self._fragment_left:
                step = min(count, self._fragment_left)
                payload += step
                self.credit.arrived += step
                self._fragment_left -= step
                self._advance(self._current, step)
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
                    assert self._start is not None
                    self._begin(self._start, bytes(self._meta))
            count -= step
        self._counters.received(self._peer, layer, payload, overhead)

    def _fixed_complete(self) -> None:
        start = decode(self._fixed)
        if grant := granted(self._fixed):
            self._granted(grant)
        if isinstance(start, int):
            self._go_on(start)
            return
        if self._current is not None:
            self._report(self._current, self._start_ns)
            self._interrupted.append(self._current)
            self._current = None
        lane = self._lanes.get(start.header.lane)
        if lane is None:
            raise ProtocolError(
                f"{start.header} is for lane {start.header.lane}; registered: {sorted(self._lanes)}"
            )
        if lane.allow is not None:
            lane.allow(start.header, start.meta_bytes)
        first = min(start.fragment_bytes, start.header.payload_bytes)
        self.credit.announce(HEADER_BYTES + start.meta_bytes + first)
        self.credit.arrived += HEADER_BYTES
        if start.meta_bytes:
            self._start = start
            self._meta, self._meta_got = memoryview(bytearray(start.meta_bytes)), 0
        else:
            self._begin(start, b"")

    def _go_on(self, fragment_bytes: int) -> None:
        """The next fragment of the message under way, or of the one interrupted last, begins."""
        if self._current is None:
            if not self._interrupted:
                raise ProtocolError("a message goes on that has not begun: out of step")
            self._current = self._interrupted.pop()
            self._current.start_ns = self._start_ns
        if not 0 < fragment_bytes < self._current.left + FRAGMENT_UNIT:
            raise ProtocolError(f"{fragment_bytes} bytes of {self._current.header} go on: out of step")
        self._fragment_left = min(fragment_bytes, self._current.left)
        self.credit.announce(self._fragment_left)
        self._fixed_got = 0

    def _begin(self, start: Start, meta: bytes) -> None:
        """The header is complete: find the place of its payload."""
        header = start.header._replace(meta=meta) if meta else start.header
        lane = self._lanes[header.lane]
        scratch: memoryview | None = None
        targets: list[memoryview] = []
        if header.payload_bytes:
            placed = lane.place(header)
            if placed is None:
                scratch = self._pool.take(header.payload_bytes)
                targets = [scratch[: header.payload_bytes]]
            else:
                targets = [view.cast("B") for view in placed if view.nbytes]
                total = sum(map(len, targets))
                if total != header.payload_bytes:
                    raise ProtocolError(f"{header}: its place has {total} bytes, not {header.payload_bytes}")
        self._fixed_got = 0
        self._current = _Incoming(header, scratch, targets, self._start_ns)
        self._fragment_left = min(start.fragment_bytes, header.payload_bytes)
        if not header.payload_bytes:
            self._finish(self._current)

    def _advance(self, message: _Incoming, count: int) -> None:
        message.left -= count
        passed = 0
        while count:
            view = message.targets[passed]
            if count < len(view):
                message.targets[passed] = view[count:]
                break
            count -= len(view)
            passed += 1
        del message.targets[:passed]
        if message.left == 0:
            self._finish(message)
        elif self._fragment_left == 0:
            come = message.header.wire_bytes - message.left
            self.credit.unfinished += come - message.unfinished
            message.unfinished = come

    def _finish(self, message: _Incoming) -> None:
        """The message is complete: hand it to its lane and wait for the next header."""
        header, scratch = message.header, message.scratch
        self._current = None
        cost, peer, handled = header.wire_bytes, self._peer, self._handled
        self.credit.unfinished -= message.unfinished
        self._report(message, self._clock.now_ns())
        payload = None if scratch is None else scratch[: header.payload_bytes]
        self._lanes[header.lane].put(Delivery(header, payload, scratch, lambda: handled(peer, cost)))

    def _report(self, message: _Incoming, end_ns: int) -> None:
        """A message has come by `end_ns`, or as much of it as before an interruption."""
        header, come = message.header, message.run_left - message.left
        if come != header.payload_bytes:
            header = header._replace(payload_bytes=come)
        self._observer.received(header, self._peer, message.start_ns, end_ns, wire=True)
        message.run_left = message.left
