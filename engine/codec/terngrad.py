"""TernGrad: -1, 0 or 1 for each element, drawn at random, times a scale for each block (512 elements).

Update rule: sigma = sqrt(mean(x^2)) over the block; c = x cut off at -2.5 sigma and 2.5 sigma; m = max|c|;
x' = m sign(c) with the probability |c| / m, else 0. Unbiased for c; what is cut off of x is lost. Nothing is kept, and
the state is a count of messages. Variance of an element: |c| (m - |c|).
Bytes: ceil(count / 5) + 4 ceil(count / block), 0.052 of float32's: a byte holds five digits of base 3, where four
numbers of 2 bits would have room; packing costs about as much (`engine/benchmarks/codecs.py`).
Loses where noise is what training suffers from: of normally distributed elements it is as large as the gradient. Last
layers suffer most, which their experiments exempt: an override gives a layer another codec. Where sums go around in
rounds, every hop cuts off and draws anew.
Source: Wen, Xu, Yan, Wu, Wang, Chen and Li 2017 (TernGrad), and their program. Deviations: a scale is for a block, not
for a layer, so that the statistics of a layer do not depend on its slices. It is the sender's own, where theirs is the
largest of all workers', which takes another round of messages; they need one scale because they add codes, and here
sums are in full precision. And sigma is about zero, where their program takes the mean off first: a block of one
element, or of equal ones, would be cut off to nothing.
"""

from __future__ import annotations

import numpy as np

from engine.codec.blockwise import LEAST, Floats
from engine.codec.scaled import scales
from engine.codec.stochastic import Stochastic

CUT = 2.5
"""Times sigma."""


class TernGrad(Stochastic):
    """Five elements in a byte."""

    base = 3
    most = 1

    def measured(self, blocks: Floats, work: Floats) -> Floats:
        found = scales(blocks, work, 1.0)
        with np.errstate(invalid="ignore"):  # what is not finite is refused by its scale
            np.divide(work, found, out=work)  # so that no square is too large, or too small, for float32
        squares = np.einsum("ij,ij->i", work, work)[:, None]
        found *= np.minimum(CUT * np.sqrt(squares / np.float32(blocks.shape[1])), 1)
        return np.maximum(found, LEAST, out=found)
