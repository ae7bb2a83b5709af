"""Going: where workers are in different steps, all hear from time to time that somebody has done another one.

A worker that is slow, and goes on for hours, is no reason to end the job: who waits for it waits as long as somebody
goes on. Who dies is noticed at once, and where nobody makes progress the deadline passes.
Each worker tells worker 0, and that one all: who has joined again knows no other. Dedicated servers are told where
workers average, which may be far apart and send nothing meanwhile; those that drift send something in every step.
Cost: a message without payload from each worker to worker 0, and from there to all, at most one in five seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Sender
from engine.transport.message import Header

_URGENT = -(2**30)
_EVERY_S = 5.0
_PER_DEADLINE = 10
"""At least: a deadline may be short."""


class Going:
    """One worker's side."""

    kinds = (Message.GOES_ON,)

    def __init__(
        self,
        endpoint: Sender,
        *,
        rank: int,
        workers: int,
        servers: Iterable[int] = (),
        deadline_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`servers`: parties that worker 0 tells besides. `deadline_s`: how long anybody waits for who makes no
        progress."""
        self._endpoint = endpoint
        self._is_first = rank == 0
        lanes = {**dict.fromkeys(range(1, workers), Lane.WORKER), **dict.fromkeys(servers, Lane.SERVER)}
        self._told = lanes if rank == 0 else {0: Lane.WORKER}
        self._every_s = min(_EVERY_S, deadline_s / _PER_DEADLINE)
        self._clock = clock
        self._said_s = self._heard_s = clock()

    def last_s(self) -> float:
        """When a worker, this one included, was last heard to go on, on the monotonic clock."""
        return self._heard_s

    def begins(self, step: int) -> None:
        """This worker has done all steps before `step`."""
        now = self._heard_s = self._clock()  # a shard beside this worker waits for it, too
        if now - self._said_s < self._every_s:
            return
        self._said_s = now
        for party, lane in self._told.items():
            word = Header(
                kind=Message.GOES_ON,
                lane=lane,
                origin=self._endpoint.index,
                step=step,
                priority=_URGENT,
            )
            self._endpoint.send(party, word)

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._heard_s = self._clock()
        if self._is_first:  # which others may wait for while it waits itself
            self.begins(header.step)
