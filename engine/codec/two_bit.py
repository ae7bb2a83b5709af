"""two-bit: of each element whether what has come together of it reaches a threshold, and with which sign.

Update rule: x' = t where x >= t, -t where x <= -t, 0 elsewhere. What that loses is kept (`feedback.py`), so x is the
gradient and what was not sent of the earlier ones. An element moves by t at most in a message, however large it is.
Bytes: ceil(count / 4), a sixteenth of float32's.
Loses where t does not fit the gradients: with a large one little is sent, and late; with a small one large elements
queue, and go on being sent when they have lost their meaning. One t is right for a few layers and a while. Gradients
are divided by the global batch, so t belongs to a batch size.
Source: the 2-bit compression of MXNet's KVStore, a rule of Strom 2015 (section 2) without his coding. Deviation: in
MXNet t is 0.5 of gradients that are summed over a batch, here of their mean, so that its default is less; there workers
alone compress what they push, here what is passed on in rounds, and a server's sum, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.axes.codec_options import ThresholdOptions
from engine.codec.base import Piece, Stateless, add, end_to_end, magnitudes_of, write
from engine.tensor_bytes import as_tensor

_QUAD = np.dtype("<u4")
_SIGNS = np.array([0, 1, -1, 0], np.float32)
_OF_BYTE = _SIGNS[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]
"""By byte: the signs of its four elements, the first in the lowest bits."""


class TwoBit(Stateless):
    """Two bits an element."""

    def __init__(self, piece: Piece, options: ThresholdOptions) -> None:
        self._name = piece.name
        self._threshold = options.threshold

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        flat = end_to_end(parts).float()
        magnitudes_of(flat, self._name)
        codes = np.zeros(-(-flat.numel() // 4) * 4, np.uint8)
        codes[: flat.numel()] = (flat >= self._threshold).numpy()
        codes[: flat.numel()] |= (flat <= -self._threshold).numpy().view(np.uint8) << 1
        quads = codes.view(_QUAD)
        return [torch.from_numpy((quads | quads >> 6 | quads >> 12 | quads >> 18).astype(np.uint8))]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write(self._values(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add(self._values(payload, parts), parts)

    def _values(self, payload: memoryview, parts: Sequence[Tensor]) -> Tensor:
        count = sum(part.numel() for part in parts)
        if len(payload) != -(-count // 4):
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {-(-count // 4)} bytes"
            )
        signs = _OF_BYTE[as_tensor(payload, torch.uint8).numpy()].reshape(-1)[:count]
        return torch.from_numpy(signs) * self._threshold
