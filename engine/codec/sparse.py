"""What codecs share that send a fixed share of a message's elements.

The parts of a message are laid end to end. Its payload is the scale of the values, where they are divided by one
(float32), the values, and which elements they are, as `places.py` says it unless the codec knows better. Values are
float32, or half precision after division by the scale; of a unit that is held in 16 bits its own type.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.axes.codec_options import RatioOptions
from engine.codec.base import Piece, Stateless, end_to_end, magnitudes_of
from engine.codec.packed import Bytes
from engine.codec.places import Places, add_at, packed, unpacked, write_at
from engine.tensor_bytes import as_tensor

_TOP = 2.0**15
"""What the largest value becomes in half precision."""


class Sparse(Stateless):
    """A subclass says which elements it sends."""

    def __init__(self, piece: Piece, options: RatioOptions, *, entropy_coding: bool = False) -> None:
        self._name = piece.name
        self._options = options
        self._entropy_coding = entropy_coding
        self._item = piece.dtype.itemsize
        self._scaled = options.scaled(self._item)
        self._wire = torch.float16 if self._scaled else piece.dtype if self._item <= 4 else torch.float32

    def choose(self, magnitudes: Tensor, chosen: int) -> Places:
        """Where `chosen` of the elements are that have these magnitudes (float32, finite, 1-D, more than `chosen`)."""
        raise NotImplementedError

    def said(self, places: Places, count: int) -> Bytes:
        """What tells a receiver which of `count` elements they are."""
        return packed(places, count, entropy_coding=self._entropy_coding)

    def heard(self, code: Bytes, count: int, chosen: int) -> Places:
        """The places that `said` made `code` of. Raises RuntimeError where it cannot have."""
        return unpacked(code, count, chosen, entropy_coding=self._entropy_coding)

    def weighted(self, values: Tensor, count: int) -> Tensor:
        """As what the values of some of `count` elements are sent."""
        return values

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        return self.pack(parts, self._chosen(parts))[0]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write_at(*self.unpack(payload, parts, self._chosen(parts)), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add_at(*self.unpack(payload, parts, self._chosen(parts)), parts)

    def pack(self, parts: Sequence[Tensor], chosen: int) -> tuple[list[Tensor], Places | None]:
        """(what travels for `chosen` elements of `parts`, which ones they are; None: all)."""
        flat = end_to_end(parts)
        count = flat.numel()
        magnitudes = magnitudes_of(flat, self._name)
        if chosen == count:
            return self._valued(flat), None
        places = self.choose(magnitudes, chosen)
        return [
            *self._valued(self.weighted(flat[torch.from_numpy(places)], count)),
            torch.from_numpy(self.said(places, count)),
        ], places

    def unpack(
        self, payload: memoryview, parts: Sequence[Tensor], chosen: int
    ) -> tuple[Places | None, Tensor]:
        """(where values belong in `parts`, None: everywhere; the values) of what `pack` made."""
        count = sum(part.numel() for part in parts)
        size = self._options.extent(count, self._item, chosen, payload, entropy_coding=self._entropy_coding)
        if len(payload) != size:
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {size} bytes"
            )
        begin = 4 if self._scaled and count else 0
        end = begin + chosen * self._wire.itemsize
        received = as_tensor(payload, torch.uint8)
        values = received[begin:end].clone().view(self._wire)  # a message may begin at any address
        if begin:
            values = values.float() * received[:begin].clone().view(torch.float32)
        return None if chosen == count else self.heard(received[end:].numpy(), count, chosen), values

    def _chosen(self, parts: Sequence[Tensor]) -> int:
        return self._options.chosen(sum(part.numel() for part in parts), self._item)

    def _valued(self, values: Tensor) -> list[Tensor]:
        """As they travel."""
        if not self._scaled or not len(values):
            return [values.to(self._wire)]
        values = values.float()
        scale = (values.abs().max() / _TOP).clamp(min=torch.finfo(torch.float32).tiny)
        return [scale.view(1), (values / scale).half()]
