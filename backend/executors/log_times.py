"""When an attempt's processes wrote what: beside every log, how many bytes it had at which time.

What a process prints is its user's, and stays as it is; so the supervisor, which looks after it anyway, looks at the
logs' sizes, too. A line was written between two looks, so its time is known to about a second.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.regular import PRIVATE

APART_MS = 1_000
"""Between two rows of one log."""
ROW = struct.Struct("<QQ")
"""Unix time in ms, and the log's bytes at that time."""
MOST_BYTES = 2**23
"""Of a file of times that is read: the first six days of a process that writes every second."""
LATEST_MS, MOST_SIZE = 8_640_000_000_000_000, 2**53
"""Rows beyond these are not ours: an attempt's own programs may write here. No browser has later times, nor larger
whole numbers."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class _Known(NamedTuple):
    """The last row of a log's times."""

    size: int
    unix_ms: int
    file: int | None
    """Descriptor; None: its times are not written, because something else is in their place or the disk is full."""


def name_of(log: str) -> str:
    """The name of the file with the times of the log of this name."""
    return f"{log.removesuffix('.log')}.times"


class LogTimes:
    """Writes the times of some logs."""

    def __init__(self, logs: Sequence[Path]) -> None:
        self._known: dict[Path, _Known | None] = dict.fromkeys(logs)

    def note(self, now_ms: int, *, last: bool = False) -> None:
        """Look at all sizes; what grew gets a row, at most one a second, but for the last one. Raises nothing: times
        are no reason for an attempt to fail."""
        for log, known in self._known.items():
            try:
                size = log.lstat().st_size
            except OSError:
                continue  # the process has not begun
            if size == (known.size if known else 0) or (
                known and not last and now_ms - known.unix_ms < APART_MS
            ):
                continue
            file = known.file if known else _made(log.with_name(name_of(log.name)))
            self._known[log] = _Known(size, now_ms, _written(file, ROW.pack(now_ms, size)))


def rows(content: bytes) -> np.ndarray:
    """(n, 2) the rows of a file of times, in order of time: Unix time in ms, and the log's bytes at that time; without
    half a row at the end, and without rows that nobody can have written."""
    whole = len(content) // ROW.size * ROW.size
    found = np.frombuffer(content[:whole], "<u8").reshape(-1, 2)
    return found[(found[:, 0] <= LATEST_MS) & (found[:, 1] <= MOST_SIZE)].astype(np.int64)


def between(rows: np.ndarray, start: int, end: int, most: int) -> np.ndarray:
    """Those of `rows` that say when the bytes from `start` to `end` of a log were there, at most about `most`, evenly
    chosen: a line that ends at a byte was written by the time of the first row that reaches it."""
    first = int(np.searchsorted(rows[:, 1], start, side="right"))
    last = int(np.searchsorted(rows[:, 1], end, side="left"))
    found = rows[first : last + 1] if end > start else rows[:0]
    stride = -(-len(found) // most) if len(found) else 1
    return found[::-1][::stride][::-1]  # the last one reaches the end


def _made(path: Path) -> int | None:
    try:
        return os.open(path, _NEW, PRIVATE)
    except OSError:
        return None


def _written(file: int | None, row: bytes) -> int | None:
    """The descriptor as long as whole rows can be written."""
    if file is None:
        return None
    try:
        if os.write(file, row) == len(row):
            return file
    except OSError:
        pass
    os.close(file)
    return None
