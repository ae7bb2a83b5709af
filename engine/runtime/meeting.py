"""Where workers wait for worker 0's word about checkpoints, and for shards to capture (`engine/checkpoint/rhythm.py`).

In lockstep all come to the meeting after the same step. A cut that worker 0 decides on there is nothing that a shard
knows from the steps of contributions: before any worker goes on behind it, worker 0, which has had all answers, lets
every shard capture what it has. Cost: a short message to each worker at each meeting; at a cut one more, and two for
each shard.

Where workers drift nobody meets. Worker 0 tells the others to stop for a cut. Each does so at the end of a step; where
workers wait for one another, all after the same one, which none of them has begun, or one would stop that another one
in the middle of a step waits for. Each tells every shard how many steps it has contributed, and goes on when the shard
has captured. Nothing is under way then: a contribution to an earlier step is in what is captured, and none to a later
one. Cost: all wait for the slowest one's step. Who has done all steps asks worker 0 first whether it may leave, after
which there is no cut any more.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from engine.checkpoint.rhythm import Word
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
        self, endpoint: Sender, *, rank: int, workers: int, shards: Collection[int], deadline_s: float
    ) -> None:
        """`shards`: the parties that have some."""
        self._endpoint = endpoint
        self._rank = rank
        self._workers = workers
        self._shards = shards
        self._number = 0
        """Of the next word: all workers count alike."""
        self._arrived: Arrivals[tuple[int, int, int], bytes] = Arrivals(deadline_s)
        """By kind, number or step, and origin."""
        self._saying = threading.Lock()
        """On worker 0: a pause is said before somebody may leave, or never."""
        self._pause: Pause | None = None
        """Which this worker is to make."""
        self._left = False
        """On worker 0: somebody has, so that there is no cut any more."""

    def fail(self, error: BaseException) -> None:
        self._arrived.fail(error)

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        if header.kind == Message.PAUSE and self._rank > 0:
            after, ends = json.loads(header.meta)
            self._pause = Pause(header.step, after, ends)
            self._send(0, Lane.WORKER, Message.PAUSE, header.step)
        elif header.kind == Message.LEAVE and self._rank == 0:
            with self._saying:  # behind a pause that has been said, of which it hears first
                self._left = True
                self._send(header.origin, Lane.WORKER, Message.LEAVE, 0)
        elif header.kind == Message.LEAVE:
            self._arrived.put((Message.LEAVE, 0, 0), b"leave")
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
            late = f"a shard did not capture its state within {self._arrived.deadline_s:.0f} s"
            self._arrived.take((Message.CAPTURED, cut, party), late)

    # --- where workers drift ---

    @property
    def pause(self) -> Pause | None:
        """The one that this worker is to make."""
        return self._pause

    def say_pause(self, pause: Pause) -> bool:
        """Of worker 0: all stop, and know it before worker 0 begins another step. False: somebody has left already, and
        nobody does."""
        with self._saying:
            if self._left:
                return False
            self._pause = pause
            meta = json.dumps([pause.after, pause.ends]).encode()
            for rank in range(1, self._workers):
                self._send(rank, Lane.WORKER, Message.PAUSE, pause.cut, meta)
        for rank in range(1, self._workers):
            late = f"worker {rank} did not hear of a checkpoint within {self._arrived.deadline_s:.0f} s"
            self._arrived.take((Message.PAUSE, pause.cut, rank), late)
        return True

    def stop(self, clock: int) -> Pause:
        """Return once every shard has captured what all workers have contributed; this one `clock` steps."""
        pause, self._pause = self._pause, None
        assert pause is not None
        for party in self._shards:
            self._send(party, Lane.SERVER, Message.PAUSED, clock, part=pause.cut)
        self._wait_for_shards(pause.cut)
        return pause

    def may_leave(self) -> bool:
        """Whether this worker, which contributes nothing any more, has no cut to make before it leaves."""
        if self._rank == 0:
            with self._saying:
                self._left = self._left or self._pause is None
                return self._pause is None
        if self._pause is not None:
            return False
        self._send(0, Lane.WORKER, Message.LEAVE, 0)
        late = f"worker 0 did not say within {self._arrived.deadline_s:.0f} s whether there is a checkpoint to be made"
        self._arrived.take((Message.LEAVE, 0, 0), late)
        return self._pause is None

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
