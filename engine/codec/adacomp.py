"""adacomp: of each bin (500 neighbouring elements) those that another gradient like this one would make its largest.

Update rule, with e what is kept and g the gradient: G = e + g, H = G + g; where |H| is at least the largest |G| of its
bin, sign(G) s is sent, e <- G - what is sent, with s the mean of the bins' largest |G| over the message. So a bin of
large and unequal gradients sends few elements, one of equal gradients many.
Bytes: 8, for k elements ceil(k / 8), and for saying which they are the lesser of 2 k + 4 ceil(count / 65536) (without
the second term up to 65,536 elements) and ceil(count / 8). The length varies; it is at most 8 + 2 ceil(count / 8), a
sixteenth of float32's, which plans declare. Entropy coding (`places.py`) adds 1 byte at most, and mostly
takes some away. Memory: what error feedback takes.
Loses where gradients of a bin are alike, of which it sends nearly all, and where bins of a message differ in size,
because all are sent with one s. In rounds, g is the sum that a hop passes on.
Source: Chen et al. 2017 (AdaComp), bins of 500 for fully-connected and recurrent layers; for convolutions they take 50.
Deviation: s is of a message, which may be a slice of a layer; an element that is zero itself is not sent; places take
16 bits in place of 8 or 16.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.axes.codec_options import BinOptions
from engine.codec.base import Piece, Stateless, end_to_end, magnitudes_of
from engine.codec.signed import Signed


class AdaComp(Signed, Stateless):
    """What stands out of its bin."""

    def __init__(self, piece: Piece, options: BinOptions, *, entropy_coding: bool = False) -> None:
        super().__init__(piece, entropy_coding=entropy_coding)
        self._bin = options.bin

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        return self.encode_apart(parts, [torch.zeros_like(part) for part in parts], at)

    def encode_apart(
        self, wanted: Sequence[Tensor], rests: Sequence[Tensor], at: Sequence[int]
    ) -> list[Tensor]:
        """As `feedback.py` asks where a codec needs to know what was kept."""
        total = end_to_end(wanted).float()
        if not total.numel():
            return self.payload(total, np.empty(0, np.int64), 0.0)
        sizes = magnitudes_of(total, self._name)
        largest = self._bins(sizes).amax(dim=1, keepdim=True)
        next_time = self._bins((2 * total - end_to_end(rests).float()).abs())
        stands_out = (next_time >= largest).view(-1)[: total.numel()] & (sizes > 0)
        return self.payload(total, np.flatnonzero(stands_out.numpy()), float(largest.double().mean()))

    def _bins(self, flat: Tensor) -> Tensor:
        missing = -flat.numel() % self._bin
        return (pad(flat, (0, missing)) if missing else flat).view(-1, self._bin)
