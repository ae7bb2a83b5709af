"""fp8: floating-point numbers of 8 bits (e4m3: 4 of exponent, 3 of mantissa), times a scale for each
block (256 elements).

Update rule: s = max|x| / 448 over the block, x' = s round_e4m3(x / s). Bytes: as int8, count + 4 ceil(count / block).
Error of an element: relative 2^-4 down to 2^-6 / 448 of its block's largest, below that at most 2^-10 / 448 of it:
coarser than int8 for the largest, finer for those below about a sixteenth of it. What rounding loses is kept
(`feedback.py`).
Loses where int8 does.
Source: Micikevicius et al. 2022 (FP8 formats for deep learning). Deviation: scales are for blocks, as in DeepSeek-V3,
not for tensors, and error feedback is added.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.codec.blockwise import Floats
from engine.codec.packed import Bytes
from engine.codec.scaled import Scaled

_VALUES: Floats = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
"""By code: looked up in a fifth of the time that the type's own conversion takes."""


class Fp8(Scaled):
    """One byte an element."""

    largest = 448.0

    def rounded(self, divided: Floats, codes: Bytes) -> None:
        torch.from_numpy(codes).view(torch.float8_e4m3fn).copy_(torch.from_numpy(divided))

    def meant(self, codes: Bytes, values: Floats) -> None:
        np.take(_VALUES, codes, out=values, mode="clip")
