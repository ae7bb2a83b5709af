"""QSGD: whole numbers of 2, 4 or 8 bits, rounded at random, times a scale for each block (512 elements).

Update rule: M = max|x| over the block, s = 2^(bits - 1) - 1 levels on each side of zero (1, 7 or 127); x' = M / s times
s x / M, rounded to the whole number above or below it with probabilities whose mean is s x / M. Unbiased: nothing is
kept of what rounding loses, and the state is a count of messages. Variance of a block of n elements: at most
min(n / s^2, sqrt(n) / s) times the sum of their squares, and at most n (M / 2s)^2.
Bytes: ceil(count bits / 8) + 4 ceil(count / block), 0.064, 0.127 or 0.252 of float32's.
Loses against int8 and int4 at as many bits: these send the nearest level, and later what that lost, while this noise
stays in what is trained; with 2 bits there is more of it than of the gradient. Where sums go around in rounds, every
hop draws anew, so noise grows with the workers.
Source: Alistarh, Grubic, Li, Tomioka and Vojnovic 2017 (QSGD), lemma 3.1 and the practice that they describe: buckets,
and the largest magnitude in place of the L2 norm as the scale. The lemma's bounds hold for it, too, as it is never the
larger one; for 512 normally distributed elements its levels are 7 times as fine, at as many bytes. Deviation: all codes
have one length. Theirs are coded by Elias's method, which pays where most are zero, as with the L2 norm.
"""

from __future__ import annotations

from engine.axes.codec_options import QsgdOptions
from engine.codec.base import Piece
from engine.codec.blockwise import Floats
from engine.codec.scaled import scales
from engine.codec.stochastic import Stochastic


class Qsgd(Stochastic):
    """`bits` an element."""

    def __init__(self, piece: Piece, options: QsgdOptions) -> None:
        super().__init__(piece, options)
        self.base = 2**options.bits
        self.most = self.base // 2 - 1

    def measured(self, blocks: Floats, work: Floats) -> Floats:
        return scales(blocks, work, self.most)
