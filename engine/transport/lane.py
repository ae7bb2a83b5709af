"""A receive queue of the process with its one consumer thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from engine.transport.buffers import ScratchPool
from engine.transport.message import Header
from engine.transport.queue import PriorityQueue

Place: TypeAlias = Callable[[Header], Sequence[memoryview] | None]
Handle: TypeAlias = Callable[[Header, memoryview | None], None]


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


class Lane:
    """Handles what arrived in strict (priority, sequence) order, one at a time, in its own thread."""

    def __init__(
        self,
        name: str,
        place: Place,
        handle: Handle,
        pool: ScratchPool,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.place = place
        self._handle = handle
        self._pool = pool
        self._failed = failed
        self._queue: PriorityQueue[Delivery] = PriorityQueue()
        self._arrived = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._consume, name=name, daemon=True)

    def start(self) -> None:
        """Start the consumer thread."""
        self._thread.start()

    def put(self, delivery: Delivery) -> None:
        """Queue a message that has arrived whole."""
        with self._arrived:
            self._queue.push(delivery.header.priority, delivery)
            self._arrived.notify()

    def stop(self, *, drop: bool, timeout_s: float) -> bool:
        """End the thread, after what is queued or (`drop`) without it; answers whether it ended in time."""
        with self._arrived:
            self._closed = True
            if drop:
                self._queue.clear()
            self._arrived.notify()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive() or self._thread is threading.current_thread()

    def _consume(self) -> None:
        try:
            while (delivery := self._next()) is not None:
                self._deliver(delivery)
        except BaseException as error:  # the endpoint reports it: nobody joins this thread to see it
            self._failed(error)

    def _next(self) -> Delivery | None:
        with self._arrived:
            while not self._queue:
                if self._closed:
                    return None
                self._arrived.wait()
            return self._queue.pop()

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
