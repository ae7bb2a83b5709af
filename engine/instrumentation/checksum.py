"""Checksums of parameters: whether two workers, or two moments, see the same bits."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.instrumentation.raw_memory import NUMPY, POINTER

_SMALL_BYTES = 2**18
"""Up to here a CRC costs no more than the calls that the other way takes."""
_ROW = 1021
"""Words that are added up with weights, so that their order counts. A prime, so that rows are not those of a matrix."""
_PIECE = 512
"""Rows, four megabytes, that are looked at together: what is read twice comes from a cache the second time."""
_GOLDEN = -0x61C8864680B583EB
_FACTORS = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Those of SplitMix64 (Steele, Lea and Flood 2014, section 3)."""


def checksum(flat: Tensor) -> Tensor:
    """An int64 scalar on the device of `flat` (1-D, contiguous), which another tensor of its size hardly has."""
    if flat.device.type == "cpu" and flat.nbytes <= _SMALL_BYTES:
        return torch.tensor(zlib.crc32(memoryview(NUMPY(flat.view(torch.uint8)))), device="cpu")
    octets = flat.view(torch.uint8)
    whole = len(octets) // 8 * 8
    if POINTER(octets) % 8 or octets.storage_offset() % 8:
        octets = octets.clone()
    words = octets[:whole].view(torch.int64)
    rows = len(words) // _ROW
    pieces = words[: rows * _ROW].view(rows, _ROW).split(_PIECE)
    by_row, by_column = [], words.new_zeros(_ROW)
    for piece in pieces:
        by_row.append(_row_sums(piece))
        # Two words that differ in the sign alone change no odd-weighted sum when they change places in a row.
        by_column += piece.sum(0)
    return _mixed(torch.cat([*by_row, by_column, words[rows * _ROW :], octets[whole:].long()])).sum()


def packed(parts: Sequence[Tensor]) -> bytes:
    """The checksums of `parts` (1-D, contiguous, on the host)."""
    return b"".join(int(checksum(part)).to_bytes(8, "little", signed=True) for part in parts)


def _row_sums(piece: Tensor) -> Tensor:
    """The sum of each row of `piece` (rows, _ROW), each word times the odd weight of its place, modulo 2^64."""
    weights = _weights(piece.device)
    return torch.mv(piece, weights) if piece.device.type == "cpu" else _sums_of_products(piece, weights)


def _sums_of_products(piece: Tensor, weights: Tensor) -> Tensor:
    """The same on devices, which know no product of integer matrices."""
    return (piece * weights).sum(1)


@functools.cache
def _weights(device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return _mixed(torch.zeros(_ROW, dtype=torch.int64, device=device)) | 1


def _mixed(words: Tensor) -> Tensor:
    """Each word and its place, mixed as SplitMix64 does: one other bit of either changes about half of all bits."""
    mixed = words + _GOLDEN * torch.arange(1, len(words) + 1, device=words.device)
    for bits, factor in zip((30, 27), _FACTORS, strict=True):
        mixed = _folded(mixed, bits) * factor
    return _folded(mixed, 31)


def _folded(words: Tensor, bits: int) -> Tensor:
    """With their high bits in their low ones, too."""
    return words ^ ((words >> bits) & (2 ** (64 - bits) - 1))


class Turns:
    """Which parts of some parameters are looked at in which step: all of them in the first steps, then a part in each,
    so that every element is looked at once in `PERIOD` steps."""

    FIRST = 10
    PERIOD = 100
    _LEAST = 2**14
    """Elements of a part: fewer cost as much. Small models have parts in some steps only."""
    _ALIGNED = 16
    """A part begins at a multiple of so many elements."""

    def __init__(self, counts: dict[str, int]) -> None:
        """`counts`: elements of each parameter."""
        self._counts = counts
        total = max(1, sum(counts.values()))
        self._size = max(-(-total // self.PERIOD), self._LEAST)
        self._parts = -(-total // self._size)

    def due(self, step: int) -> dict[str, tuple[int, int]]:
        """Parameter -> first element and end of what is looked at in `step`."""
        if step < self.FIRST:
            return {name: (0, count) for name, count in self._counts.items()}
        number, waits = divmod(step % self.PERIOD, self.PERIOD // self._parts)
        if waits or number >= self._parts:
            return {}
        first, end = number * self._size, (number + 1) * self._size
        found, offset = {}, 0
        for name, count in self._counts.items():
            start, stop = max(first - offset, 0), min(end - offset, count)
            start -= start % self._ALIGNED
            if start < stop:
                found[name] = start, stop
            offset += count
        return found
