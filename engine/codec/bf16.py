"""bf16: bfloat16 on the wire, sums in full precision. It has the range of float32, so nothing overflows.

Update rule: each hop sends round_bf16(x) and the receiver adds it in the tensor's own precision. Bytes: 2 x count in
each direction; where a server updates, 75 % of the bytes remain, not half, unless its answers have this codec, too
(`difference.py`). Error: relative 2^-8 per rounding, eight times that of fp16; a server rounds once on the way in (and
once on the way back where workers update), a ring once per hop.
Loses against fp16 where gradients lie in its range (6e-5 to 65504), which has three bits more.
Source: PyTorch's `bf16_compress_hook` of DistributedDataParallel. Deviation: that one also sums in bfloat16.
"""

from __future__ import annotations

import torch

from engine.codec.elementwise import Elementwise


class BrainFloat(Elementwise):
    """Rounded to bfloat16 on the wire."""

    short = torch.bfloat16
