"""What a codec draws at random, counted by messages: the count is all of its state.

Each message has a generator of its own, made of the unit's seed (`Piece.seed`) and of how many messages were before it.
So a job that runs again sends the same bytes wherever the order of its messages is the same; how many numbers a
message took decides nothing about the next one. A worker that joins a job again begins with the first message's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from engine.codec.base import Piece


class Draws:
    """The random numbers of one unit's messages on one party."""

    def __init__(self, piece: Piece) -> None:
        self._name = piece.name
        self._seed = piece.seed
        self._messages = 0

    @property
    def messages(self) -> int:
        """How many have been made."""
        return self._messages

    def generator(self, *, alike: int = 1) -> np.random.SFC64:
        """Of the next message, at its first number, however often it is asked for. `alike`: so many messages in a row
        have the same numbers."""
        return np.random.SFC64(np.random.SeedSequence((self._seed, self._messages // alike)))

    def sent(self) -> None:
        """That message has been made."""
        self._messages += 1

    def state(self) -> dict[str, Tensor]:
        """Of a codec that remembers nothing else; empty before the first message."""
        return {"messages": torch.tensor(self._messages)} if self._messages else {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError for what is no count of messages."""
        found = state.get("messages", torch.tensor(0))
        if set(state) - {"messages"} or found.shape or found.dtype != torch.int64 or found < 0:
            raise ValueError(
                f"{self._name} remembers how many messages it has sent, and was given {', '.join(state)}"
            )
        self._messages = int(found)


def seed_of(job: int, unit: int, sender: str) -> int:
    """The seed of one unit's codec on one party, of 64 bits. `job`: the job's seed; `sender`: "worker 1", "shard 0"."""
    return int.from_bytes(hashlib.blake2b(f"{job}, {unit}, {sender}".encode(), digest_size=8).digest())
