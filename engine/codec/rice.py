"""Golomb-Rice code: ascending places as the gaps between them, each in little more than its information.

Of a gap g (elements that lie between two places) the r lowest bits are written as they are, and g >> r in unary: so
many zeros, then a one. Golomb's code with a power of two (Rice 1979); r is the one with which the code is shortest.
Layout: r (uint8), bytes that follow (uint32), the low bits gap after gap, highest first, then the unary part, filled up
to a whole byte. Bits of k places: k (r + 1) + sum(g >> r). Where places are independent of one
another and a share p of all elements, that is at most 0.13 bits above the information of a place, which is about
log2(1 / p) + 1.44 bits: 9.7 bits in place of 9.6 at 0.36 %. Places that lie close together need less.
Loses where nearly half of all elements have a place, or more: a bit for each element is shorter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.axes.codec_sizes import NUMBER, RICE_HEAD

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
MOST_LOW = 31
"""Bits of a gap that are written as they are."""


def coded(places: Places, below: int) -> Bytes | None:
    """The code of ascending places, of which there is one at least, in fewer than `below` bytes; None: it is not
    shorter."""
    gaps = np.diff(places, prepend=-1) - 1
    low, high = _split(gaps)
    beside = len(gaps) * low
    bits = beside + len(gaps) + int(high.sum())
    size = -(-bits // 8)
    if RICE_HEAD + size >= below:
        return None
    written = np.zeros(bits, np.uint8)
    written[:beside] = _low_bits(gaps, low)
    written[beside + np.cumsum(high + 1) - 1] = 1
    head = np.frombuffer(bytes([low]) + size.to_bytes(NUMBER, "little"), np.uint8)
    return np.concatenate((head, np.packbits(written)))


def decoded(code: Bytes, chosen: int) -> Places:
    """The `chosen` places of a code that is as long as it says. Raises RuntimeError where it holds another number."""
    low, written = int(code[0]), np.unpackbits(code[RICE_HEAD:])
    if low > MOST_LOW:
        raise RuntimeError(f"places came whose gaps have {low} low bits, of at most {MOST_LOW}")
    ends = np.flatnonzero(written[chosen * low :])
    if len(ends) != chosen:
        raise RuntimeError(f"places of {len(ends)} elements came where {chosen} were sent")
    gaps = (np.diff(ends, prepend=-1) - 1) << low
    if low:
        gaps |= _from_low_bits(written[: chosen * low], low)
    return np.cumsum(gaps + 1) - 1


def _split(gaps: Places) -> tuple[int, Places]:
    """(r, gaps >> r). The length of the code falls with r up to the best one and grows from there on, because each
    further bit takes less of the unary part away than the one before."""
    low, high = 0, gaps
    while low < MOST_LOW and int((less := high >> 1).sum()) + len(gaps) < int(high.sum()):
        low, high = low + 1, less
    return low, high


def _low_bits(gaps: Places, low: int) -> Bytes:
    """0 or 1 for each."""
    if not low:
        return np.empty(0, np.uint8)
    width = _width(low)
    whole = (gaps & ((1 << low) - 1)).astype(f">u{width}").view(np.uint8).reshape(-1, width)
    return np.unpackbits(whole, axis=1)[:, -low:].reshape(-1)


def _from_low_bits(bits: Bytes, low: int) -> Places:
    width = _width(low)
    whole = np.zeros((len(bits) // low, 8 * width), np.uint8)
    whole[:, -low:] = bits.reshape(-1, low)
    return np.packbits(whole, axis=1).view(f">u{width}").reshape(-1).astype(np.int64)


def _width(low: int) -> int:
    """Bytes of a whole number that holds so many bits."""
    return 1 if low <= 8 else 2 if low <= 16 else 4
