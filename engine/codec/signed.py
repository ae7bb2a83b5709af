"""What codecs share whose messages are some of the elements, each plus or minus one number.

The parts of a message are laid end to end. Its payload is how many elements are sent (uint32), the number (float32),
which elements they are (`places.py`) and a bit for the sign of each. As many are sent as there are to send, so the
length varies: at most 8 + 2 ceil(count / 8) bytes, and 1 with entropy coding. A message of no elements has no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.axes.codec_sizes import SIGNED_HEAD, signed_extent
from engine.codec.base import Piece
from engine.codec.places import Places, add_at, packed, unpacked, write_at
from engine.tensor_bytes import as_tensor

_HEAD = np.dtype([("chosen", "<u4"), ("size", "<f4")])


class Signed:
    """A subclass says which elements it sends, and as what."""

    def __init__(self, piece: Piece, *, entropy_coding: bool) -> None:
        self._name = piece.name
        self._entropy_coding = entropy_coding

    def payload(self, flat: Tensor, places: Places, size: float) -> list[Tensor]:
        """`size` at `places` of a message, with the signs that `flat` (1-D) has there."""
        count = flat.numel()
        if not count:
            return [torch.empty(0, dtype=torch.uint8)]
        head = np.array([(len(places), size)], _HEAD).view(np.uint8)
        negative = (flat[torch.from_numpy(places)] < 0).numpy()
        where = packed(places, count, entropy_coding=self._entropy_coding)
        return [torch.from_numpy(np.concatenate((head, where, np.packbits(negative))))]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write_at(*self._read(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add_at(*self._read(payload, parts), parts)

    def _read(self, payload: memoryview, parts: Sequence[Tensor]) -> tuple[Places, Tensor]:
        count = sum(part.numel() for part in parts)
        size = signed_extent(count, payload, entropy_coding=self._entropy_coding)
        if len(payload) != size:
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which begin as one of {size}"
            )
        if not count:
            return np.empty(0, np.int64), torch.empty(0)
        received = as_tensor(payload, torch.uint8).numpy()
        head = received[:SIGNED_HEAD].copy().view(_HEAD)[0]
        chosen = int(head["chosen"])
        end = size - -(-chosen // 8)
        places = unpacked(received[SIGNED_HEAD:end], count, chosen, entropy_coding=self._entropy_coding)
        signs = np.unpackbits(received[end:], count=chosen).astype(np.float32)
        return places, torch.from_numpy((1 - 2 * signs) * head["size"])
