"""What codecs share that round at random: up or down, so often that the mean is what was rounded.

A block is divided by its scale. Of what is left, v, floor(v) + 1 is sent with the probability v - floor(v), and
floor(v) otherwise, within -most and most. So the mean of what arrives is what was sent (but for what a scale cuts off),
and no rest has to be kept: codecs of this kind have no error feedback. What is drawn has 32 bits, and comes from the
unit's seed and the count of its messages (`draws.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from engine.axes.codec_options import BlockOptions
from engine.codec.base import Piece
from engine.codec.blockwise import Blockwise, Floats
from engine.codec.draws import Draws
from engine.codec.packed import Bytes


class Stochastic(Blockwise):
    """A subclass says what a block's scale is (`measured`), and how many levels there are."""

    most: int
    """Codes mean -most to most, times the scale."""

    def __init__(self, piece: Piece, options: BlockOptions) -> None:
        super().__init__(piece, options)
        self._draws = Draws(piece)

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        self._random = self._draws.generator()
        found = super().encode(parts, at)
        self._draws.sent()
        return found

    def to_codes(self, blocks: Floats, numbers: Floats, work: Floats, codes: Bytes) -> None:
        np.divide(blocks, numbers, out=work)
        work += self._drawn(work.size).reshape(work.shape)
        np.rint(work, out=work)
        np.clip(work, -self.most, self.most, out=work)
        work += self.most
        np.copyto(codes, work, casting="unsafe")

    def to_values(self, numbers: Floats, codes: Bytes, values: Floats) -> None:
        np.copyto(values, codes)
        values -= self.most
        values *= numbers

    def state(self) -> dict[str, Tensor]:
        return self._draws.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._draws.load(state)

    def _drawn(self, count: int) -> Floats:
        """Evenly spread from -1/2 to 1/2."""
        words = self._random.random_raw(-(-count // 2)).view(np.int32)[:count]
        found = words.astype(np.float32)
        found *= np.float32(2.0**-32)
        return found
