"""top-k: of each message the elements with the largest magnitudes (1 % of them), known as gradient dropping.

Update rule: k = max(1, round(ratio count)); x' = x where |x| is among the k largest of the message, 0 elsewhere; of
equal ones the first are sent. What is not sent is kept (`feedback.py`), so that an element is sent when what has come
together of it is large.
Bytes: 4 k (2 k + 4 with `value_bits: 16`), and for saying which elements the least of 2 k + 4 ceil(count / 65536)
(without the second term up to 65,536 elements), ceil(count / 8), and 0 where all are sent: 0.015 of float32's
at 1 %. Everything is sent where less would take as many bytes. With entropy coding (`places.py`) places take as many
bytes as they happen to need, at most 1 more than without; at 1 %, 0.0125 where they are independent. Time: the k-th
largest is found among those that exceed an estimate from about 64 / ratio elements, so that all elements are compared
once and few are sorted.
Memory: what error feedback takes.
Loses where gradients are dense (most of the step is late then, by about 1 / ratio steps, or more), at the start of
training, with momentum on top (late elements are applied with momentum that has moved on), and with layers of few
elements, of which as large a share is dropped: leave such layers at fp32 (`overrides` with `most_parameters`). Where a
server updates, answers have a codec of their own (`difference.py`). In rounds each hop selects of what it passes on;
where workers update, the server selects of the sum. Both keep what they do not send.
Source: Aji and Heafield 2017 (sparse communication for distributed gradient descent: R = 99 %), with each matrix's own
threshold as in their section 3. Deviation: they send what exceeds the R-th percentile of a sample of 0.1 %, so that the
number varies with the sample; here the sample only finds candidates, and the number, so the size, is exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from engine.codec.places import Places
from engine.codec.sparse import Sparse

_WANTED = 64
"""Of the elements that are sent so many are expected in the sample."""
_RANK = 104
"""The sample's element of this rank is the estimate: five standard deviations (of a sample without structure) below
the k-th largest, so that nearly always enough exceed it, and about 1.6 k do."""

_Magnitudes = npt.NDArray[np.float32]


class TopK(Sparse):
    """The largest elements."""

    def choose(self, magnitudes: Tensor, chosen: int) -> Places:
        return largest(magnitudes.numpy(), chosen)


def largest(magnitudes: _Magnitudes, chosen: int) -> Places:
    """Where the `chosen` largest of more magnitudes are, ascending; of equal ones the first."""
    near = _candidates(magnitudes, chosen)
    return _exactly(magnitudes, chosen) if near is None else near[_exactly(magnitudes[near], chosen)]


def _candidates(magnitudes: _Magnitudes, chosen: int) -> Places | None:
    """Where elements are among which the largest ones are; None: no few of them are known."""
    stride = chosen // _WANTED | 1  # odd, because rows of a weight are mostly even
    sample = magnitudes[::stride]
    if stride == 1 or len(sample) <= _RANK:
        return None
    estimate = np.partition(sample, len(sample) - _RANK)[len(sample) - _RANK]
    found = np.flatnonzero(magnitudes >= estimate)
    return found if len(found) >= chosen else None


def _exactly(magnitudes: _Magnitudes, chosen: int) -> Places:
    if len(magnitudes) == chosen:
        return np.arange(chosen)
    limit = np.partition(magnitudes, len(magnitudes) - chosen)[len(magnitudes) - chosen]
    above = np.flatnonzero(magnitudes > limit)
    equal = np.flatnonzero(magnitudes == limit)[: chosen - len(above)]
    return np.sort(np.concatenate((above, equal)))
