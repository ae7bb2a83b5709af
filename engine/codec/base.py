"""What a codec does to one unit on its way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Codec(Protocol):
    """Encode what leaves, decode what arrives. A codec never communicates and knows no exchange.

    `parts` are one-dimensional contiguous tensors of one type on the host: the pieces of a unit.
    """

    def wire_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The type in which tensors of `dtype` travel."""
        ...

    def encode(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What travels for `parts`, in the same order: views where nothing changes, else new tensors."""
        ...

    def decode(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        """Write `payload` (1-D, `wire_dtype`) over `parts`, piece after piece."""
        ...

    def decode_add(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        """Add `payload` to `parts`, in the parts' own precision."""
        ...


def pieces(payload: Tensor, parts: Sequence[Tensor]) -> Iterable[tuple[Tensor, Tensor]]:
    """(part, its piece of the payload) for parts that lie end to end in it; a slice mostly has one part."""
    if len(parts) == 1 and parts[0].numel() == payload.numel():
        return ((parts[0], payload),)
    return zip(parts, payload.split_with_sizes([part.numel() for part in parts]), strict=True)


class Elementwise:
    """What codecs share whose payload has an element for each of the unit's, in a type that torch converts."""

    def decode(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        for part, piece in pieces(payload, parts):
            part.copy_(piece)

    def decode_add(self, payload: Tensor, parts: Sequence[Tensor]) -> None:
        for part, piece in pieces(payload, parts):
            part.add_(piece)
