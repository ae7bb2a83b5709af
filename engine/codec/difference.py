"""Differences: in place of updated parameters, a server sends what they have moved by from what the receiver holds.

Update rule, with p the server's parameters and h what a receiver holds (p at first): sent = decode(encode(p - h)),
h <- h + sent on the server and on the receiver, in the parameters' own type. Both add the same numbers to the same
numbers, so the server knows h to the bit. What a message loses stays in p - h and is in the next one: p - h is the
residual, so the codec keeps none of its own, and what has been sent in any number of steps adds up to h - h_0.
In lockstep all receivers hold the same, and one message is for all of them. Where they drift, each has an h of its own;
one that joins again gets p as it is, and in the end all of them do.
Bytes: the codec's, of a message of the unit's elements. Memory, on the shard: one element for each of the unit's, in
its own type, and what the codec keeps beside a residual; where receivers drift, so much for each receiver. Nothing on
receivers.
Loses: workers compute on h, which is behind p by what messages have lost so far; in lockstep h is what they evaluate
and save, too: what the last messages lost is never seen. Where the codec selects (1 %), most of h is late by many
steps. Where receivers drift, the server encodes once for each.
The codec must send what is nearer to p - h than nothing is, or errors grow: not what is drawn at random around it.
Source: Tang et al. 2019 (DoubleSqueeze), which compresses what a server sends, with a residual there; as the difference
from a copy that receivers share: Liu et al. 2020 (DORE), algorithm 1, with their eta and beta 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.codec.base import UnitCodec, arriving, end_to_end

_HELD = "held"


class Difference:
    """What receivers of one unit hold, and the codec that brings it nearer to the sender's parameters."""

    def __init__(self, codec: UnitCodec, parts: Sequence[Tensor]) -> None:
        """`codec`: the unit's, with no residual. `parts`: what the receivers begin with, 1-D, of the unit's type."""
        self._codec = codec
        self._held = torch.cat(list(parts))

    @property
    def tensors(self) -> list[Tensor]:
        """What it keeps, for who counts it."""
        return [self._held]

    def encode(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """A message after which the receivers hold nearly `parts`. Raises TrainingError, with nothing changed, where
        the codec cannot express by how much they have moved."""
        moved = end_to_end(parts) - self._held
        payload = self._codec.encode([moved], [0])
        (sent,) = arriving(payload, self._codec.decode, [moved])
        self._held.add_(sent)
        return payload

    def assign(self, parts: Sequence[Tensor]) -> None:
        """The receivers have `parts` in place of what they held: they got them, or have all written the same."""
        torch.cat(list(parts), out=self._held)

    def state(self) -> dict[str, Tensor]:
        """What the receivers hold, and what the codec goes on from."""
        return self._codec.state() | {_HELD: self._held.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same unit. Raises ValueError where it is another one's."""
        held = state.get(_HELD)
        if held is None or held.shape != self._held.shape or held.dtype != self._held.dtype:
            raise ValueError(f"{sorted(state)} is not what receivers of {len(self._held)} elements hold")
        self._codec.load({name: kept for name, kept in state.items() if name != _HELD})
        self._held = held.clone()


def moved_by(codec: UnitCodec, payload: memoryview | None, count: int, dtype: torch.dtype) -> Tensor:
    """On a receiver: what a message says that the unit's `count` elements have moved by, 1-D, to be added to them."""
    found = torch.empty(count, dtype=dtype)
    codec.decode(memoryview(b"") if payload is None else payload, [found])
    return found
