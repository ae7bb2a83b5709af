"""int8: whole numbers from -127 to 127, times a scale for each block (256 elements).

Update rule: s = max|x| / 127 over the block, q = round(x / s) to the nearest whole number, halves to even; x' = q s.
Bytes: count + 4 ceil(count / block), 0.254 of float32's. Error of an element: at most s / 2, 1/254 of its block's
largest. What rounding loses is kept (`feedback.py`), so that small elements beside a large one are late, not lost.
Loses against bf16 where a block holds values of very different sizes, and where encoding takes longer than the link
would for the bytes saved.
Source: block-wise quantization of Dettmers 2016 and 2022, and of ZeRO++ (qgZ). Deviation: levels are linear, and error
feedback is added.
"""

from __future__ import annotations

import numpy as np

from engine.codec.blockwise import Floats
from engine.codec.packed import Bytes
from engine.codec.scaled import Scaled


class Int8(Scaled):
    """One byte an element."""

    largest = 127.0

    def rounded(self, divided: Floats, codes: Bytes) -> None:
        np.rint(divided, out=divided)
        np.copyto(codes.view(np.int8), divided, casting="unsafe")

    def meant(self, codes: Bytes, values: Floats) -> None:
        np.copyto(values, codes.view(np.int8))
