"""Several small numbers in a byte: as digits, of which a byte holds as many as fit.

The elements are laid out in as many rows as a byte has digits, and row k gives the digits of base^k: neighbours do not
share a byte, so that every step of packing works on neighbouring bytes. Base 16: two in a byte, 4: four, 3: five.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def in_a_byte(base: int) -> int:
    """Digits of that base in one byte."""
    digits = 1
    while base ** (digits + 1) <= 256:
        digits += 1
    return digits


def packed_bytes(base: int, count: int) -> int:
    """Bytes that so many digits take."""
    return -(-count // in_a_byte(base))


def packed(digits: Bytes, base: int) -> Bytes:
    """1-D, each below `base`, to `packed_bytes`."""
    rows, size = in_a_byte(base), packed_bytes(base, len(digits))
    if rows == 1:
        return digits
    found = np.zeros(size, np.uint8)
    for row in reversed(range(rows)):
        more = digits[row * size : (row + 1) * size]
        found *= np.uint8(base)
        found[: len(more)] += more
    return found


def unpacked(codes: Bytes, base: int, count: int) -> Bytes:
    """The inverse: `count` digits."""
    rows = in_a_byte(base)
    if rows == 1:
        return codes
    found, rest = np.empty((rows, len(codes)), np.uint8), codes
    for row in found[:-1]:
        higher = rest // np.uint8(base)
        np.multiply(higher, np.uint8(base), out=row)
        np.subtract(rest, row, out=row)
        rest = higher
    found[-1] = rest
    return found.reshape(-1)[:count]
