"""random-k: of each message elements that are drawn at random (1 % of them); only the draw's seed says which they are.

Update rule: k = max(1, round(ratio n)) of a message's n elements, each set of k as likely as any other; x' = x where
they are, 0 elsewhere. What is not sent is kept (`feedback.py`), so that an element is sent after n / k messages in the
mean, with all that has come together of it. With `unbiased`, x' = n / k x there, and nothing is kept: the mean of what
arrives is x, and its variance (n / k - 1) times the sum of the squares.
Bytes: 8 for the seed, from which sender and receiver draw the same places, and 4 k (2 k + 4 with `value_bits: 16`), or
all elements where that is not less: 0.01 of float32's at 1 %. Time: that of looking for what is not finite; few numbers
are drawn. Memory: what error feedback takes, and a count of messages; with `unbiased` the count alone.
Loses against top-k at as many bytes, since it sends small elements as readily as large ones. What comes together in
n / k messages comes at once, and momentum goes on with it: with a residual leave the optimizer's momentum out, or send
more. With `unbiased` its noise is n / k times as large as the gradient, so that the learning rate has to be as much
smaller, or the ratio larger. In rounds each hop draws anew, of what it passes on; where workers update, so does the
server, of the sum.
Source: Stich, Cordonnier and Jaggi 2018 (sparsified SGD with memory: rand_k); Konecny et al. 2016 (federated learning,
random masks: only a seed travels). Deviation: k elements of a message, which may be a slice of a layer; workers draw
by themselves, where BytePS has all of them draw the same places, so that sums need no places at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from engine.axes.codec_options import RandomOptions
from engine.codec.base import Piece
from engine.codec.draws import Draws
from engine.codec.packed import Bytes
from engine.codec.places import Places
from engine.codec.sparse import Sparse

_SEED = np.dtype("<u8")


class RandomK(Sparse):
    """Any elements."""

    def __init__(self, piece: Piece, options: RandomOptions) -> None:
        super().__init__(piece, options)
        self._unbiased = options.unbiased
        self._draws = Draws(piece)
        self._seed = np.zeros(1, _SEED)
        """Of the message that is being encoded."""

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        self._seed = self._draws.generator().random_raw(1).astype(_SEED)
        found = super().encode(parts, at)
        self._draws.sent()
        return found

    def choose(self, magnitudes: Tensor, chosen: int) -> Places:
        return drawn(int(self._seed[0]), len(magnitudes), chosen)

    def said(self, places: Places, count: int) -> Bytes:
        return self._seed.view(np.uint8)

    def heard(self, code: Bytes, count: int, chosen: int) -> Places:
        return drawn(int.from_bytes(code.tobytes(), "little"), count, chosen)

    def weighted(self, values: Tensor, count: int) -> Tensor:
        return values * (count / len(values)) if self._unbiased else values

    def state(self) -> dict[str, Tensor]:
        return self._draws.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._draws.load(state)


def drawn(seed: int, count: int, chosen: int) -> Places:
    """`chosen` of `count` places, ascending; the same for a seed wherever it is asked. Only the generator's raw numbers
    are NumPy's, because how its own choice uses them may differ from one version to the next."""
    if 2 * chosen > count:
        kept = np.ones(count, np.bool_)
        kept[drawn(seed, count, count - chosen)] = False
        return np.flatnonzero(kept)
    generator, found = np.random.SFC64(np.random.SeedSequence(seed)), np.empty(0, np.int64)
    while len(found) < chosen:  # the first distinct ones of a sequence
        words = generator.random_raw(chosen - len(found))
        more = ((words >> np.uint64(11)) * 2.0**-53 * count).astype(np.int64)
        sequence = np.concatenate((found, np.minimum(more, count - 1)))
        first = np.unique(sequence, return_index=True)[1]
        found = sequence[np.sort(first)]
    return np.sort(found)
