"""Where workers wait for worker 0's word about checkpoints, and for shards to capture (`engine/checkpoint/rhythm.py`).

In lockstep all come to the meeting after the same step. A cut that worker 0 decides on there is nothing that a shard
knows from the steps of contributions: before any worker goes on behind it, worker 0, which has had all answers, lets
every shard capture what it has. Cost: a short message to each worker at each meeting; at a cut one more, and two for
each shard.

Where workers drift nobody meets. Worker 0 tells the others to stop for a cut. Each does so at the end of a step; where
workers wait for one another, all after the same one, which none of them has begun, or one would stop that another one
in the middle of a step waits for. Each tells every shard how many steps it has contributed, and goes on when the shard
has captured. Nothing is under way then: a contribution to an earlier step is in what is captured, and none to a later
one. Cost: all wait for the slowest one's step. Who has done all steps says so to worker 0, and waits until all have, or
for a cut: nobody has left before. He waits for as long as others go on (`engine/coordination/going.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from engine.checkpoint.rhythm import LOOK_S, Word
from engine.coordination.arrivals import Arrivals
from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Sender
from engine.transport.message import Header

_URGENT = -(2**30)


class Pause(NamedTuple):
    """For one cut, where workers drift."""

    cut: int
    """The cut's step: worker 0's."""
    after: int
    """Not before a worker has done so many steps."""
    ends: bool
    """The attempt is to end with it."""


class Meeting:
    """One worker's side."""

    kinds = (Message.WORD, Message.CAPTURED, Message.PAUSE, Message.LEAVE)

    def __init__(
        self,
        endpoint: Sender,
        *,
        rank: int,
        workers: int,
        shards: Collection[int],
        deadline_s: float,
        going_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`shards`: the parties that have some. `going_s()`: when another worker was last heard to go on, on the
        monotonic clock."""
        self._endpoint = endpoint
        self._rank = rank
        self._workers = workers
        self._shards = shards
        self._going_s = going_s
        self._number = 0
        """Of the next word: all workers count alike."""
        self._arrived: Arrivals[tuple[int, int, int], bytes] = Arrivals(deadline_s)
        """By kind, number or step, and origin."""
        self._pause: Pause | None = None
        """Which this worker is to make."""
        self._done: set[int] = set()
        """Who has done all steps; on worker 0 all others, on another one itself."""
        self._over = False
        """All have."""

    def fail(self, error: BaseException) -> None:
        self._arrived.fail(error)

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        if header.kind == Message.PAUSE and self._rank > 0:
            after, ends = json.loads(header.meta)
            self._pause = Pause(header.step, after, ends)
            self._arrived.notify()
            self._send(0, Lane.WORKER, Message.PAUSE, header.step)
        elif header.kind == Message.LEAVE:
            self._done.add(header.origin)
            self._over = self._rank > 0
            self._arrived.notify()
        else:
            self._arrived.put((header.kind, header.step, header.origin), header.meta)

    # --- in lockstep ---

    def hear(self, say: Callable[[], Word]) -> Word:
        """Worker 0's word, which it finds with `say`. Collective."""
        number, self._number = self._number, self._number + 1
        if self._rank == 0:
            word = say()
            for rank in range(1, self._workers):
                self._send(rank, Lane.WORKER, Message.WORD, number, word.encode())
            return word
        late = (
            f"worker 0 did not come to the meeting about checkpoints within {self._arrived.deadline_s:.0f} s"
        )
        return Word.decode(self._arrived.take((Message.WORD, number, 0), late))

    def capture(self, cut: int) -> None:
        """Return once every shard has captured what is after `cut` steps. All workers have had all answers to the last
        one, and contribute to no later one before. Collective."""
        if self._shards:
            self.hear(partial(self._capture, cut))

    def _capture(self, cut: int) -> Word:
        for party in self._shards:
            self._send(party, Lane.SERVER, Message.CAPTURE, cut)
        self._wait_for_shards(cut)
        return Word()

    def _wait_for_shards(self, cut: int) -> None:
        for party in self._shards:
            key = (Message.CAPTURED, cut, party)
            late = (
                f"a shard did not capture its state, and nobody went on, for {self._arrived.deadline_s:.0f} s"
            )
            self._wait_while_going(partial(self._arrived.__contains__, key), lambda: None, partial(str, late))
            self._arrived.take(key, late)

    # --- where workers drift ---

    @property
    def pause(self) -> Pause | None:
        """The one that this worker is to make."""
        return self._pause

    def say_pause(self, pause: Pause) -> None:
        """Of worker 0: all stop, and know it before worker 0 begins another step."""
        self._pause = pause
        meta = json.dumps([pause.after, pause.ends]).encode()
        for rank in range(1, self._workers):
            self._send(rank, Lane.WORKER, Message.PAUSE, pause.cut, meta)
        for rank in range(1, self._workers):
            late = f"worker {rank} did not hear of a checkpoint within {self._arrived.deadline_s:.0f} s"
            self._arrived.take((Message.PAUSE, pause.cut, rank), late)

    def stop(self, clock: int) -> Pause:
        """Return once every shard has captured what all workers have contributed; this one `clock` steps."""
        pause, self._pause = self._pause, None
        assert pause is not None
        for party in self._shards:
            self._send(party, Lane.SERVER, Message.PAUSED, clock, part=pause.cut)
        self._wait_for_shards(pause.cut)
        return pause

    def may_leave(self, look: Callable[[], None] = lambda: None) -> bool:
        """Of a worker that contributes nothing any more: block until it has a cut to make before it leaves, or all have
        done all steps; answers whether it may. `look()` is called on worker 0 about once a second meanwhile, and may
        say a pause. Collective."""
        if self._rank > 0:
            if not self._done:
                self._done.add(self._rank)
                self._send(0, Lane.WORKER, Message.LEAVE, 0)
            self._wait(lambda: self._over or self._pause is not None, look, {0})
            return self._pause is None
        others = set(range(1, self._workers))
        self._wait(lambda: self._done >= others or self._pause is not None, look, others)
        if self._pause is None:
            for rank in others:
                self._send(rank, Lane.WORKER, Message.LEAVE, 0)
        return self._pause is None

    def _wait(self, there: Callable[[], bool], look: Callable[[], None], others: set[int]) -> None:
        def late() -> str:
            missing = ", ".join(f"worker {rank}" for rank in sorted(others - self._done))
            return (
                f"{missing} did not come to an end of training, and nobody went on with it for {most_s:.0f} s"
            )

        # Worker 0 knows who is missing, and may itself have come to its end a step later: it speaks first.
        most_s = self._arrived.deadline_s * (1 if self._rank == 0 else 2)
        self._wait_while_going(there, look, late, most_s)

    def _wait_while_going(
        self,
        there: Callable[[], bool],
        look: Callable[[], None],
        late: Callable[[], str],
        most_s: float | None = None,
    ) -> None:
        """Block until `there()`. Raises TimeoutError with `late()` where no worker has gone on for `most_s` seconds
        (the deadline's, where nothing is said)."""
        began_s, most_s = time.monotonic(), self._arrived.deadline_s if most_s is None else most_s
        while not self._arrived.wait(there, min(LOOK_S, most_s)):
            if time.monotonic() > max(began_s, self._going_s()) + most_s:
                raise TimeoutError(late())
            look()

    def _send(
        self, party: int, lane: Lane, kind: Message, step: int, meta: bytes = b"", *, part: int = 0
    ) -> None:
        word = Header(
            kind=kind,
            lane=lane,
            origin=self._endpoint.index,
            step=step,
            part=part,
            priority=_URGENT,
            meta=meta,
        )
        self._endpoint.send(party, word)
