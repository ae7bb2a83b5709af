"""Tensors in a file without a name: their pages are the system's, which writes and reads them, and not the process's.

A mapped page counts as the process's own as long as it is touched, so who has used a tensor lets it go: the system
keeps the pages as it keeps any file, and gives them up when memory is short. The file's room is reserved before
anything is written to it, so that a full disk is an error and no SIGBUS. Its room is given back when nobody has a
tensor in it any more, or when the process ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, NamedTuple

import torch
from torch import Tensor

_GROWTH = 2**20
"""Bytes that a file grows by, at least; and by a quarter of what it has, so that maps stay few: each takes a
descriptor."""
_PLACE = "_trainyard_place"


class _Place(NamedTuple):
    """Where a tensor's pages are."""

    folder: str
    map: mmap.mmap
    start: int
    size: int


class MappedFile:
    """One file, to which rooms are added. Safe to use from several threads."""

    def __init__(self, folder: str) -> None:
        """`folder`: one on a disk. The file is made with the first room."""
        self.folder = folder
        self.reserved = 0
        """Bytes."""
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._begin = self._end = 0
        """Of what is free in the last map."""

    def room(self, like: Tensor, *, as_laid_out: bool = False) -> Tensor:
        """A tensor of this one's shape and type, whose values are not set, contiguous, or laid out as it is. Raises
        OSError where the disk has no room."""
        size = _rounded(like.nbytes)
        with self._lock:
            if self._map is None or self._end - self._begin < size:
                self._grow(_rounded(max(size, _GROWTH, self.reserved // 4)))
            assert self._map is not None
            start, self._begin = self._begin, self._begin + size
            flat = torch.frombuffer(self._map, dtype=like.dtype, count=like.numel(), offset=start)
            found = flat.view(like.shape)
            if as_laid_out and _spans(like.shape, like.stride()) == like.numel():
                found = flat.as_strided(like.shape, like.stride())
            setattr(found, _PLACE, _Place(self.folder, self._map, start, size))
            return found

    def _grow(self, size: int) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115 - as long as this
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), self.reserved, size)
        else:
            self._file.truncate(self.reserved + size)
        self._map = mmap.mmap(self._file.fileno(), size, offset=self.reserved)
        self._begin, self._end = 0, size
        self.reserved += size


def folder_of(tensor: Tensor) -> str | None:
    """The folder of the file that a tensor is in; None where it is in memory."""
    place: _Place | None = getattr(tensor, _PLACE, None)
    return None if place is None else place.folder


def let_go(tensor: Tensor) -> None:
    """The process holds nothing of it until somebody uses it again; nothing becomes of one that is in memory."""
    place: _Place | None = getattr(tensor, _PLACE, None)
    if place is not None and hasattr(mmap, "MADV_DONTNEED"):
        place.map.madvise(mmap.MADV_DONTNEED, place.start, place.size)


def _spans(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one to the last one."""
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _rounded(count: int) -> int:
    """Bytes of whole pages."""
    return -(-count // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
