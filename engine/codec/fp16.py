"""fp16: half precision on the wire, sums in full precision.

Update rule: each hop sends round16(x) and the receiver adds it in the tensor's own precision, so sums do not
overflow half precision before they are sent on. Bytes: 2 x count in each direction; where a server updates, 75 % of the
bytes remain, not half, unless its answers have this codec, too (`difference.py`). Error: relative 2^-11 per
rounding; a server rounds once on the way in (and once on the way back where workers update), a ring once per hop.
Loses: gradients beyond 65504 become infinite, below 6e-8 zero; the loss check then ends the job with a reason.
Source: the 16-bit updates of papers 001 (29.2 MB instead of 58.4 MB for 14.6 M parameters).
"""

from __future__ import annotations

import torch

from engine.codec.elementwise import Elementwise


class HalfPrecision(Elementwise):
    """Rounded to float16 on the wire."""

    short = torch.float16
