"""What an endpoint uses of the data plane in C: the same calls as of `engine.transport.loop.Loop`.

The I/O thread is in C. One Python thread hears from it, many events at a time: it tells the observer, says where long
messages belong, puts what has arrived into the lanes and handles light messages itself. A short message is in a slot
of the library's memory; it is copied to its place, where it has one.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.transport.buffers import ScratchPool
from engine.transport.counters import Traffic
from engine.transport.dialogue import LostCallback, PingAnswered
from engine.transport.errors import PeerLost, ProtocolError, TransportError, gave_up
from engine.transport.in_c.counted import counted
from engine.transport.in_c.library import (
    EVENT,
    NO_SLOT,
    SLOT_ALIGNMENT,
    SLOT_BYTES,
    TOLERATED,
    Event,
    Library,
    PeerOptions,
)
from engine.transport.in_c.memory import copy, pairs, place
from engine.transport.in_c.settings import Settings, options
from engine.transport.lane import Delivery, LaneQueue, work
from engine.transport.message import HEADER_BYTES, Header, Outgoing
from engine.transport.observer import NoObserver, Watch
from engine.transport.pacing import PacedLink

_EVENTS = 128
"""Taken at a time."""
_FOREVER_NS = 2**62
_DONE = struct.Struct("<iiq")
"""`struct done` of api.c: peer, slot, bytes."""
_new = partial(tuple.__new__, Header)
INLINE_BYTES = SLOT_BYTES
"""What the thread that hears from the library handles itself: meanwhile the deputy moves bytes, so that it may be more
than where one thread does both."""


class CLoop:
    """The calls of Loop. Owns the connections' file descriptors from `start` on."""

    def __init__(
        self,
        library: Library,
        sockets: Mapping[int, tuple[int, int]],
        settings: Settings,
        *,
        names: Mapping[int, str],
        paced: frozenset[int],
        egress: PacedLink | None,
        ingress: PacedLink | None,
        lanes: Mapping[int, LaneQueue],
        pool: ScratchPool,
        watch: Watch,
        failed: Callable[[BaseException], None],
        name: str,
    ) -> None:
        """`sockets`: the file descriptors of the data and the control connection with each peer."""
        self.parted = threading.Event()
        self._library = library
        self._names = names
        self._lanes = lanes
        for lane in lanes.values():
            lane.inline_bytes = INLINE_BYTES
        self._pool = pool
        self._watch = watch
        self._observer = None if isinstance(watch.observer, NoObserver) else watch.observer
        self._failed = failed
        self._links = (egress, ingress)  # their memory is in use as long as this is
        self._options = options(settings, egress, ingress)
        self._peers = [PeerOptions(peer, *pair, peer in paced) for peer, pair in sockets.items()]
        self._core: int | None = None
        self._memory = memoryview(b"")
        self._numbers = itertools.count(1)
        self._sent: dict[int, Outgoing] = {}
        """What the library has not said yet that it has left: its memory must stay."""
        self._incoming: dict[int, tuple[Header, memoryview | None, list[memoryview]]] = {}
        """Long messages on their way in: header, scratch memory, and where the payload goes."""
        self._answered: PingAnswered | None = None
        self._peer_lost: LostCallback | None = None
        self._woken = self._again = self._stopping = self._aborted = False
        self._waits = False
        """A message waits in a lane."""
        self._done = ctypes.create_string_buffer(_DONE.size * _EVENTS)
        self._done_count = 0
        """Of what the thread has handled and not said yet."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._by_kind: dict[int, Callable[[tuple[Any, ...]], None]] = {
            Event.MESSAGE: self._message,
            Event.PLACED: self._placed,
            Event.ASK_ALLOW: self._ask_allow,
            Event.ASK_PLACE: self._ask_place,
            Event.RECEIVED_RUN: self._received_run,
            Event.SENT_RUN: self._sent_run,
            Event.SENT: self._left,
            Event.PONGED: self._ponged,
            Event.PARTED: lambda _: self.parted.set(),
            Event.LOST: self._fails,
            Event.ABORTED: self._fails,
            Event.BROKEN: self._fails,
            Event.DROPPED: self._dropped,
        }

    # Called from any thread.

    def start(self) -> None:
        self._options.epoch_ns = self._watch.clock.epoch_ns
        peers = (PeerOptions * len(self._peers))(*self._peers)
        self._core = self._library.open(ctypes.byref(self._options), peers, len(peers))
        if self._core is None:
            raise TransportError("the data plane in C did not start: out of memory, threads or descriptors")
        size = self._library.slots_bytes()
        self._memory = memoryview((ctypes.c_char * size).from_address(self._library.slots(self._core))).cast(
            "B"
        )
        self._watch.counters.wire = self._counted
        self._thread.start()

    def put(self, peer: int, message: Outgoing, *, hurry: bool) -> None:
        number = next(self._numbers)
        self._sent[number] = message
        frame, views = message.frame, message.views
        awaited = message.on_sent is not None
        left = self._library.send(
            self._core, peer, frame, len(frame), pairs(views), len(views), number, awaited, hurry
        )
        if not left:  # nobody is there any more
            del self._sent[number]

    def nudge(self) -> None:
        self.wake()
        self._library.nudge(self._core)

    def may_lose(self, expendable: frozenset[int], lost: LostCallback) -> None:
        self._peer_lost = lost
        for peer in expendable.intersection(self._names):
            self._library.may_lose(self._core, peer)

    def wake(self) -> None:
        """Make the thread look at the lanes."""
        if threading.get_ident() == self._thread.ident:
            self._again = True
        elif not self._woken:
            self._woken = True
            self._library.wake(self._core)

    def ping(self, peer: int, answered: PingAnswered) -> None:
        self._answered = answered
        self._library.ping(self._core, peer)

    def part(self) -> None:
        self._library.part(self._core)

    def missing(self) -> list[str]:
        return [
            self._names[peer.index]
            for peer in self._peers
            if not self._library.parted(self._core, peer.index)
        ]

    def abort(self, culprit: int, reason: str) -> None:
        self._aborted = True
        self._stop(culprit, reason.encode())

    def stop(self) -> None:
        self._stop(0, None)

    def _stop(self, culprit: int, text: bytes | None) -> None:
        self._library.stop(self._core, culprit, text)
        self._stopping = True
        self._library.wake(self._core)

    def join(self, timeout_s: float) -> bool:
        if self._thread is threading.current_thread():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # The thread that hears from the library.

    def _run(self) -> None:
        buffer = ctypes.create_string_buffer(EVENT.size * _EVENTS)
        try:
            self._loop(buffer)
        except BaseException as error:  # the endpoint reports it: nobody joins this thread to see it
            self._failed(error)
        self._library.join(self._core)
        try:
            while not self._aborted and self._hear(buffer, 0):
                pass
        except BaseException as error:
            self._failed(error)
        # Handlers may still use the memory of messages: it is freed with this object.
        weakref.finalize(self, self._library.free, self._core).atexit = False
        self._sent.clear()

    def _loop(self, buffer: ctypes.Array[ctypes.c_char]) -> None:
        lanes = tuple(self._lanes.values())
        more = False
        while not self._stopping:
            self._hear(buffer, 0 if more else _FOREVER_NS)
            if self._woken or self._again:
                self._woken = self._again = False  # before looking at what a waker may have left
                self._waits = True
            if self._waits or more:
                self._waits = False
                more = work(lanes) or self._again

    def _hear(self, buffer: ctypes.Array[ctypes.c_char], timeout_ns: int) -> int:
        """Take the next events and act on them; answers how many."""
        done, self._done_count = self._done_count, 0
        count: int = self._library.wait(self._core, buffer, _EVENTS, timeout_ns, self._done, done)
        if count == 1:
            event = EVENT.unpack_from(buffer)
            if event[0] == Event.MESSAGE:
                self._message(event, alone=True)
            else:
                self._by_kind[event[0]](event)
            return 1
        for event in EVENT.iter_unpack(memoryview(buffer)[: count * EVENT.size]):
            self._by_kind[event[0]](event)
        return count

    def _lane(self, header: Header) -> LaneQueue:
        lane = self._lanes.get(header.lane)
        if lane is None:
            raise ProtocolError(f"{header} is for lane {header.lane}; registered: {sorted(self._lanes)}")
        return lane

    def _message(self, event: tuple[Any, ...], *, alone: bool = False) -> None:
        """A short message is in its slot; `alone`: nothing else has come with it."""
        peer, slot, meta_bytes = event[1:4]
        at = slot * SLOT_BYTES
        meta = b""
        if meta_bytes:
            meta = bytes(self._memory[at : at + meta_bytes])
            at += -(-meta_bytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT
        header = _header(event, meta)
        lane = self._lanes.get(header.lane) or self._lane(header)
        if lane.allow is not None:
            lane.allow(header, meta_bytes)
        payload: memoryview | None = None
        if size := header.payload_bytes:
            payload = self._memory[at : at + size]
            placed = place(lane, header)
            if placed is not None:
                copy(payload, placed)
                payload = None
        self._arrived(event, header)
        cost = HEADER_BYTES + meta_bytes + size
        if alone and not self._woken and lane.handle_alone(header, payload):
            self._handled(peer, cost, slot)
        else:
            lane.put(Delivery(header, payload, None, partial(self._handled, peer, cost, slot)))
            self._waits = True

    def _ask_allow(self, event: tuple[Any, ...]) -> None:
        """A long message with meta begins."""
        header = _header(event)
        lane = self._lane(header)
        if lane.allow is not None:
            lane.allow(header, event[3])
        self._answer(event[1], [])

    def _ask_place(self, event: tuple[Any, ...]) -> None:
        """A long message begins: say where it belongs."""
        meta_bytes, header = event[3], _header(event)
        lane = self._lane(header)
        if meta_bytes:
            header = header._replace(meta=ctypes.string_at(event[8], meta_bytes))
        elif lane.allow is not None:
            lane.allow(header, 0)
        scratch, placed = None, None
        if header.payload_bytes:
            placed = place(lane, header)
            if placed is None:
                scratch = self._pool.take(header.payload_bytes)
                placed = [scratch[: header.payload_bytes]]
        self._incoming[event[4]] = (header, scratch, placed or [])
        self._answer(event[1], placed or [])

    def _answer(self, peer: int, views: list[memoryview]) -> None:
        if not self._library.answer(self._core, peer, pairs(views), len(views)):
            raise MemoryError("no memory to say where a message belongs")

    def _placed(self, event: tuple[Any, ...]) -> None:
        """A long message has come whole."""
        header, scratch, _ = self._incoming.pop(event[4])
        self._arrived(event, header)
        payload = None if scratch is None else scratch[: header.payload_bytes]
        done = partial(self._handled, event[1], header.wire_bytes, NO_SLOT)
        self._lanes[header.lane].put(Delivery(header, payload, scratch, done))
        self._waits = True

    def _handled(self, peer: int, cost_bytes: int, slot: int) -> None:
        if self._done_count < _EVENTS and threading.get_ident() == self._thread.ident:
            _DONE.pack_into(self._done, self._done_count * _DONE.size, peer, slot, cost_bytes)
            self._done_count += 1  # the library hears of it when it is asked next, in a moment
        else:
            self._library.handled(self._core, peer, cost_bytes, slot)

    def _received_run(self, event: tuple[Any, ...]) -> None:
        self._arrived(event, _header(event))

    def _arrived(self, event: tuple[Any, ...], header: Header) -> None:
        """A message has come, or as much of it as before an interruption."""
        if self._observer is None:
            return
        peer, come, start_ns, end_ns = event[1], event[5], event[6], event[7]
        if come != header.payload_bytes:
            header = header._replace(payload_bytes=come)
        epoch_ns = self._watch.clock.epoch_ns
        self._observer.received(header, peer, start_ns - epoch_ns, end_ns - epoch_ns, wire=True)

    def _sent_run(self, event: tuple[Any, ...]) -> None:
        """A message has left as much as it may before another one."""
        _, peer, _, _, number, count, start_ns, end_ns = event[:8]
        if self._observer is None:
            return
        header = self._sent[number].header
        if count != header.payload_bytes:
            header = header._replace(payload_bytes=count)
        epoch_ns = self._watch.clock.epoch_ns
        start_ns, end_ns = start_ns - epoch_ns, end_ns - epoch_ns
        self._observer.sent(header, peer, header.queued_ns, start_ns, end_ns, wire=True)

    def _left(self, event: tuple[Any, ...]) -> None:
        """A message has left whole."""
        self._sent_run(event)
        message = self._sent.pop(event[4])
        if message.on_sent is not None:
            message.on_sent()

    def _dropped(self, event: tuple[Any, ...]) -> None:
        """A message for a lost peer never leaves."""
        del self._sent[event[4]]

    def _ponged(self, event: tuple[Any, ...]) -> None:
        if self._answered is not None:
            epoch_ns = self._watch.clock.epoch_ns
            self._answered(event[6] - epoch_ns, event[5], event[7] - epoch_ns)

    def _fails(self, event: tuple[Any, ...]) -> None:
        kind, peer = event[:2]
        text = ctypes.string_at(event[8], event[3]).decode(errors="replace")
        if kind == Event.BROKEN:
            raise ProtocolError(text)
        error = PeerLost(peer, self._names[peer], text)
        if kind == Event.ABORTED:
            error = gave_up(peer, event[5], self._names, text)
        if event[2] != TOLERATED:
            raise error
        assert self._peer_lost is not None
        self._peer_lost(peer, error.reason)

    def _counted(self) -> Traffic:
        return counted(self._library, self._core, len(self._peers))


def _header(event: tuple[Any, ...], meta: bytes = b"") -> Header:
    """The header of a message, the fields in Header's order."""
    header: Header = _new((event[10], event[12], event[11], *event[14:22], meta))
    return header
