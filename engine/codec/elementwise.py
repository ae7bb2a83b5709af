"""What codecs share whose payload has an element for each of the unit's, in a type that torch converts; sums are in the
unit's own type."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.catalogue import NoOptions
from engine.codec.base import Piece, Stateless, add, write
from engine.tensor_bytes import as_tensor


class Elementwise(Stateless):
    """A subclass that rounds says to which type."""

    short: torch.dtype | None = None

    def __init__(self, piece: Piece, options: NoOptions) -> None:
        self._wire = self.short or piece.dtype

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        return [part.to(self._wire) for part in parts]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write(as_tensor(payload, self._wire), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add(as_tensor(payload, self._wire), parts)
