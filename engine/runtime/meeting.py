"""Where workers wait for worker 0's word about checkpoints, and shards for when to capture (`engine/checkpoint/rhythm.py`).

A cut that worker 0 decides on is nothing that a shard knows from the steps of contributions. Before any worker goes on
behind it, worker 0, which has had all answers, lets every shard capture what it has, and waits until it has.
Cost: a short message to each worker at each meeting; at a cut one more, and two for each shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from engine.checkpoint.rhythm import Word
from engine.coordination.arrivals import Arrivals
from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Sender
from engine.transport.message import Header

_URGENT = -(2**30)


class Meeting:
    """One worker's side."""

    kinds = (Message.WORD, Message.CAPTURED)

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
        self._arrived: Arrivals[tuple[int, int], bytes] = Arrivals(deadline_s)
        """Words by their number and 0; who has captured by the cut's step and party."""
        self.fail = self._arrived.fail

    def place(self, header: Header) -> None:
        """There is no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self._arrived.put((header.step, header.origin), header.meta)

    def hear(self, say: Callable[[], Word]) -> Word:
        """Worker 0's word, which it finds with `say`. Collective."""
        number, self._number = self._number, self._number + 1
        if self._rank == 0:
            word = say()
            for rank in range(1, self._workers):
                self._send(rank, Lane.WORKER, Message.WORD, number, word.encode())
            return word
        late = f"worker 0 did not come to the meeting about checkpoints within {self._arrived.deadline_s:.0f} s"
        return Word.decode(self._arrived.take((number, 0), late))

    def capture(self, cut: int) -> None:
        """Return once every shard has captured what is after `cut` steps. All workers have had all answers to the last
        one, and contribute to no later one before. Collective."""
        if self._shards:
            self.hear(partial(self._capture, cut))

    def _capture(self, cut: int) -> Word:
        for party in self._shards:
            self._send(party, Lane.SERVER, Message.CAPTURE, cut)
        for party in self._shards:
            late = f"a shard did not capture its state within {self._arrived.deadline_s:.0f} s"
            self._arrived.take((cut, party), late)
        return Word()

    def _send(self, party: int, lane: Lane, kind: Message, step: int, meta: bytes = b"") -> None:
        word = Header(
            kind=kind, lane=lane, origin=self._endpoint.index, step=step, priority=_URGENT, meta=meta
        )
        self._endpoint.send(party, word)
