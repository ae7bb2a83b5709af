"""Error feedback: what a message lost is added to the same unit's next one.

Update rule, of each element: sent = decode(encode(g + e)), e <- g + e - sent; e begins at 0. So what has been sent in
any number of steps and what is left add up to what was given, to rounding. Memory: one element for each of the unit's,
in its own type, on every party that encodes it. An element of which nothing is sent in a step keeps its rest.
Loses: what is late is applied at parameters that it was not computed for; a rest that is never sent (a worker's last
step, a worker that is lost) is lost.
Source: Seide et al. 2014 (1-bit SGD, section 3.2). Deviation: they keep one residual for each worker and one where
sums are made, as here with servers; where sums go around in rounds, each rank keeps what its own message lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from engine.codec.base import Piece, UnitCodec, arriving
from engine.codec.memory import Memory

_REST = "rest"


@runtime_checkable
class TellsApart(Protocol):
    """A codec that asks for what was kept apart from the gradient."""

    def encode_apart(
        self, wanted: Sequence[Tensor], rests: Sequence[Tensor], at: Sequence[int]
    ) -> list[Tensor]:
        """As `encode` of `wanted`, each of which is a gradient and its rest."""
        ...


class Feedback:
    """A unit's codec, and what its messages have lost so far."""

    def __init__(self, codec: UnitCodec, piece: Piece) -> None:
        self._codec = codec
        self._apart = codec if isinstance(codec, TellsApart) else None
        self._memory = Memory(piece, _REST)

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        rests = self._memory.of(_REST, parts, at)
        wanted = [part + rest for part, rest in zip(parts, rests, strict=True)]
        if self._apart is not None:
            payload = self._apart.encode_apart(wanted, rests, at)
        else:
            payload = self._codec.encode(wanted, at)
        sent = arriving(payload, self._codec.decode, parts)
        for rest, all_of_it, part in zip(rests, wanted, sent, strict=True):
            torch.sub(all_of_it, part, out=rest)
        return payload

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        self._codec.decode(payload, parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        self._codec.decode_add(payload, parts)

    def state(self) -> dict[str, Tensor]:
        return self._codec.state() | self._memory.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._memory.load({name: held for name, held in state.items() if name == _REST})
        self._codec.load({name: held for name, held in state.items() if name != _REST})
