"""one-bit: of each element its sign, of each block (512 elements) the mean of the negative and of the other elements.

Update rule: x' = mean of the block's elements below 0 where x < 0, mean of the others elsewhere, so that a block's sum
stays as it was. What that loses is kept (`feedback.py`), without which it does not converge.
Bytes: ceil(count / 8) + 8 ceil(count / block), 1/28 of float32's.
Loses where encoding takes longer than the link would for the bytes saved, and at the start of training, while gradients
change faster than rests are worked off.
Source: Seide, Fu, Droppo, Li and Yu 2014 (1-bit SGD). Deviation: they keep two values for each column of a weight
matrix, we for each block of neighbours, so that the statistics of a layer do not depend on its shape or its slices.
"""

from __future__ import annotations

import numpy as np

from engine.codec.blockwise import Blockwise, Floats
from engine.codec.packed import Bytes


class OneBit(Blockwise):
    """One bit an element."""

    numbers = 2
    base = 2

    def measured(self, blocks: Floats, work: Floats) -> Floats:
        below = (blocks < 0).view(np.uint8).sum(axis=1, dtype=np.uint32)
        found = np.empty((len(blocks), 2), np.float32)
        for side, count, bound in ((0, below, np.minimum), (1, blocks.shape[1] - below, np.maximum)):
            bound(blocks, 0, out=work)
            found[:, side] = work.sum(axis=1) / np.maximum(count, 1)
        return found

    def to_codes(self, blocks: Floats, numbers: Floats, work: Floats, codes: Bytes) -> None:
        np.less(blocks, 0, out=codes.view(np.bool_))

    def to_values(self, numbers: Floats, codes: Bytes, values: Floats) -> None:
        # As bits, `high`, or `high ^ low ^ high`: np.where takes six times as long where signs have no order.
        low, high = (numbers[:, side : side + 1].copy().view(np.int32) for side in (0, 1))
        found = values.view(np.int32)
        np.copyto(found, codes)
        np.negative(found, out=found)
        np.bitwise_and(found, low ^ high, out=found)
        np.bitwise_xor(found, high, out=found)

    def packed(self, codes: Bytes) -> Bytes:
        return np.packbits(codes)

    def unpacked(self, travelled: Bytes, count: int) -> Bytes:
        return np.unpackbits(travelled, count=count)
