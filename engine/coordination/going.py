"""Going: where workers drift, all hear from time to time that somebody has done another step.

A worker that is slow, and goes on for hours, is no reason to end the job: who waits for it waits as long as somebody
goes on. Who dies is noticed at once, and where nobody makes progress the deadline passes.
Each worker tells worker 0, and that one all: who has joined again knows no other.
Cost: a message without payload from each worker to worker 0, and back, at most one in five seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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
        deadline_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`deadline_s`: how long anybody waits for who makes no progress."""
        self._endpoint = endpoint
        self._is_first = rank == 0
        self._told = range(1, workers) if rank == 0 else range(1)
        self._every_s = min(_EVERY_S, deadline_s / _PER_DEADLINE)
        self._clock = clock
        self._said_s = self._heard_s = clock()

    def last_s(self) -> float:
        """When another worker was last heard to go on, on the monotonic clock."""
        return self._heard_s

    def begins(self, step: int) -> None:
        """This worker has done all steps before `step`."""
        now = self._clock()
        if now - self._said_s < self._every_s:
            return
        self._said_s = now
        for rank in self._told:
            word = Header(
                kind=Message.GOES_ON,
                lane=Lane.WORKER,
                origin=self._endpoint.index,
                step=step,
                priority=_URGENT,
            )
            self._endpoint.send(rank, word)

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._heard_s = self._clock()
        if self._is_first:  # which others may wait for while it waits itself
            self.begins(header.step)
