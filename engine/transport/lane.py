"""A receive queue of the process and who handles what is in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

from engine.transport.buffers import ScratchPool
from engine.transport.message import Header
from engine.transport.queue import PriorityQueue

Placing: TypeAlias = Callable[[Header], Sequence[memoryview] | None]
Handle: TypeAlias = Callable[[Header, memoryview | None], None]
Weigh: TypeAlias = Callable[[Header], int]
"""How many bytes the message's handler has to work on."""
Allow: TypeAlias = Callable[[Header, int], None]
"""Raises ProtocolError for a header, or so many bytes of meta, that announce more than such a message can have."""


INLINE_BYTES = 64 * 1024
"""What a thread that also moves bytes handles itself: to add and apply so much takes a few tens of microseconds."""

WORK_NS = 300_000
"""How long messages are handled before the network is looked at again."""


class Delivery:
    """A message that has arrived. `payload` is what the handler gets, `scratch` the buffer below it."""

    __slots__ = ("done", "header", "parts", "payload", "scratch")

    def __init__(
        self,
        header: Header,
        payload: memoryview | None,
        scratch: memoryview | None,
        done: Callable[[], None] | None,
        parts: Sequence[memoryview] = (),
    ) -> None:
        self.header = header
        self.payload = payload
        self.scratch = scratch
        self.done = done
        self.parts = parts
        """A local payload in several pieces, joined only when its turn comes."""


class _Turn(Enum):
    """Who handles messages at the moment."""

    NOBODY = "nobody"
    IO = "the I/O thread"
    OWN = "the lane's thread"


class LaneQueue:
    """Handles what arrived in strict (priority, sequence) order, one at a time.

    Every lane has a thread of its own. With `weigh`, the I/O thread handles light messages itself, between two looks
    at the network: to wake another thread for a slice of a few kB costs several times what its handler does. Heavy
    ones would hold up the network, so they are left to the lane's thread, with whatever comes meanwhile.
    """

    def __init__(
        self,
        name: str,
        place: Placing,
        handle: Handle,
        pool: ScratchPool,
        failed: Callable[[BaseException], None],
        *,
        weigh: Weigh | None,
        allow: Allow | None,
    ) -> None:
        self.place = place
        self.allow = allow
        self._handle = handle
        self._pool = pool
        self._failed = failed
        self._weigh = weigh
        self.inline_bytes = INLINE_BYTES
        """What the I/O thread handles itself; whoever moves the bytes may say otherwise."""
        self._queue: PriorityQueue[Delivery] = PriorityQueue()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._turn = _Turn.NOBODY
        self._closed = False
        self._thread = threading.Thread(target=self._consume, name=name, daemon=True)

    def start(self) -> None:
        """Start the lane's thread."""
        self._thread.start()

    def put(self, delivery: Delivery) -> None:
        """Queue a message that has arrived whole; with `weigh` the I/O thread must be made to look."""
        with self._lock:
            self._queue.push(delivery.header.priority, delivery)
            if self._weigh is None and self._turn is _Turn.NOBODY:
                self._leave_to_own_thread()

    def work(self) -> bool:
        """In the I/O thread: handle the most urgent message, if it is light; answers whether it was."""
        if not self._queue:
            return False
        with self._lock:
            if self._turn is not _Turn.NOBODY or not self._queue or self._weigh is None:
                return False
            if self._weigh(self._queue.peek().header) > self.inline_bytes:
                self._leave_to_own_thread()
                return False
            self._turn = _Turn.IO
            delivery = self._queue.pop()
        try:
            self._deliver(delivery)
        finally:
            self._end_turn()
        return True

    def handle_alone(self, header: Header, payload: memoryview | None) -> bool:
        """In the I/O thread: handle a light message that has just arrived, without queueing it, where nothing else
        waits or is being handled; answers whether that was so."""
        if self._queue or self._weigh is None or self._weigh(header) > self.inline_bytes:
            return False
        with self._lock:
            if self._queue or self._turn is not _Turn.NOBODY:
                return False
            self._turn = _Turn.IO
        try:
            self._handle(header, payload)
        finally:
            self._end_turn()
        return True

    def stop(self, *, drop: bool, timeout_s: float) -> bool:
        """End the thread, after what is queued or (`drop`) without it; answers whether it ended in time."""
        with self._changed:
            self._closed = True
            if drop:
                self._queue.clear()
            self._changed.notify()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive() or self._thread is threading.current_thread()

    def _end_turn(self) -> None:
        with self._lock:
            self._turn = _Turn.NOBODY
            if self._closed:
                self._changed.notify()

    def _leave_to_own_thread(self) -> None:
        self._turn = _Turn.OWN
        self._changed.notify()

    def _consume(self) -> None:
        try:
            while (delivery := self._next()) is not None:
                self._deliver(delivery)
        except BaseException as error:  # the endpoint reports it: nobody joins this thread to see it
            self._failed(error)

    def _next(self) -> Delivery | None:
        """Of the lane's thread: what to handle next, once it is its turn; None at the end."""
        with self._changed:
            while True:
                if self._queue and (self._turn is _Turn.OWN or (self._closed and self._turn is _Turn.NOBODY)):
                    self._turn = _Turn.OWN
                    return self._queue.pop()
                if self._turn is _Turn.OWN:
                    self._turn = _Turn.NOBODY
                if self._closed and not self._queue:
                    return None
                self._changed.wait()

    def _deliver(self, delivery: Delivery) -> None:
        header, payload, scratch = delivery.header, delivery.payload, delivery.scratch
        if delivery.parts:
            scratch = self._pool.take(header.payload_bytes)
            payload = scratch[: header.payload_bytes]
            start = 0
            for part in delivery.parts:
                payload[start : start + len(part)] = part
                start += len(part)
        self._handle(header, payload)
        if scratch is not None:
            self._pool.give(scratch)
        if delivery.done is not None:
            delivery.done()


def work(lanes: Sequence[LaneQueue]) -> bool:
    """In the I/O thread: handle short messages for a while; answers whether some may be left."""
    end_ns = time.monotonic_ns() + WORK_NS
    handled = True
    while handled and time.monotonic_ns() < end_ns:
        handled = False
        for lane in lanes:  # one message of each in turn
            handled |= lane.work()
    return handled
