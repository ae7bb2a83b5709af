"""threshold: of each message the elements of which enough has come together, each as plus or minus one threshold.

Update rule: x' = t where x >= t, -t where x <= -t, 0 elsewhere. What that loses is kept (`feedback.py`), so x is the
gradient and what was not sent of the earlier ones. An element moves by t at most in a message, however large it is.
Bytes: 8, for k elements ceil(k / 8), and for saying which they are the lesser of 2 k + 4 ceil(count / 65536) (without
the second term up to 65,536 elements) and ceil(count / 8): 17 bits of each that is sent where that is less than one in
16, else a bit of each element and one more of each that is sent. The length varies; it is at most
8 + 2 ceil(count / 8), a sixteenth of float32's, which plans declare.
With entropy coding (`places.py`) the 16 bits of a place become about 1.5 more than the logarithm of how many elements
there are for each that is sent: of 14.6 million elements of which 0.36 % are sent, at places that are independent, each
takes 10.7 bits with its sign, and the message 0.07 MB.
Loses where two-bit does, which has the same rule. Where nearly all elements are sent, it is as long as that.
Source: Strom 2015 (section 2). Deviation: an element takes 32 bits there, 31 of them for its place, or about a third
of that as a Golomb code of the gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from engine.axes.codec_options import ThresholdOptions
from engine.codec.base import Piece, Stateless, end_to_end, magnitudes_of
from engine.codec.signed import Signed


class Threshold(Signed, Stateless):
    """The elements beyond it."""

    def __init__(self, piece: Piece, options: ThresholdOptions, *, entropy_coding: bool = False) -> None:
        super().__init__(piece, entropy_coding=entropy_coding)
        self._threshold = options.threshold

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        flat = end_to_end(parts)
        sizes = magnitudes_of(flat, self._name)
        return self.payload(flat, np.flatnonzero((sizes >= self._threshold).numpy()), self._threshold)
