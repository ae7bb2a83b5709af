"""Checksums of parameters: whether two workers, or two moments, see the same bits."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.instrumentation.raw_memory import NUMPY, POINTER

_SMALL_BYTES = 2**18
"""Up to here a CRC costs no more than the calls that the other way takes."""
_ROW = 509
"""Words that are added up before their place counts: what is exchanged within a row is not seen. A prime, so that rows
are not those of a matrix."""


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
    total = _by_place(words[: rows * _ROW].view(rows, _ROW).sum(1))
    return total + _by_place(words[rows * _ROW :]) + _by_place(octets[whole:].long())


def packed(parts: Sequence[Tensor]) -> bytes:
    """The checksums of `parts` (1-D, contiguous, on the host)."""
    return b"".join(int(checksum(part)).to_bytes(8, "little", signed=True) for part in parts)


def _by_place(words: Tensor) -> Tensor:
    """Their sum, each multiplied by a number of its own, modulo 2^64."""
    return (words * torch.arange(1, 2 * len(words) + 1, 2, device=words.device)).sum()


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
