"""int4: whole numbers from -7 to 7, two in a byte, times a scale for each block (256 elements).

Update rule: s = max|x| / 7 over the block, q = round(x / s); x' = q s. Bytes: ceil(count / 2) + 4 ceil(count / block),
0.129 of float32's. Error of an element: at most s / 2, 1/14 of its block's largest: elements below that are sent only
once what was kept of them (`feedback.py`) has grown.
Loses where int8 does, and where a step's direction is worth more than its bytes: late updates are stale ones.
Source: the 4 bits of Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512). Deviation: they use a floating-point
format of 4 bits (e3m0) without error feedback.
"""

from __future__ import annotations

import numpy as np

from engine.codec.blockwise import Floats
from engine.codec.packed import Bytes
from engine.codec.scaled import Scaled

_ZERO = 8


class Int4(Scaled):
    """Half a byte an element."""

    base = 16
    largest = 7.0

    def rounded(self, divided: Floats, codes: Bytes) -> None:
        np.rint(divided, out=divided)
        divided += _ZERO
        np.copyto(codes, divided, casting="unsafe")

    def meant(self, codes: Bytes, values: Floats) -> None:
        np.copyto(values, codes)
        values -= _ZERO
