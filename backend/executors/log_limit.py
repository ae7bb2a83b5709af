"""No log takes more of the disk than a limit, however much is printed: its first part and its last one stay.

A process writes to its log itself, so nobody stands between; the supervisor, which looks at the logs' sizes anyway,
gives what lies in the middle back to the file system: a hole (fallocate(2), FALLOC_FL_PUNCH_HOLE). Offsets stay what
they were, so whoever reads on at one, or notes one beside a time, need not know. A file system that knows no holes
keeps the whole log, and the supervisor's own log says so.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

FIRST_BYTES = 16 << 20
LAST_BYTES = 48 << 20
SLACK_BYTES = 16 << 20
"""How much more than both a log may hold before its middle goes."""
BLOCK = 1 << 16
"""Holes begin and end at multiples of it; blocks of file systems are smaller."""
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
logger = logging.getLogger(__name__)


class LogLimit:
    """Holds some logs to the limit."""

    def __init__(
        self,
        logs: Sequence[Path],
        *,
        first: int = FIRST_BYTES,
        last: int = LAST_BYTES,
        slack: int = SLACK_BYTES,
    ) -> None:
        """Each keeps its `first` bytes and its `last` ones; up to `slack` more are there before the middle goes."""
        self._logs = dict.fromkeys(logs, first)
        """Where the part of each begins that may go: before it everything stays, or has gone."""
        self._last = last
        self._slack = slack
        self._able = True

    def hold(self) -> None:
        """Look at all logs. Raises nothing: a full disk is no reason for an attempt to fail."""
        for log, begin in self._logs.items():
            try:
                size = log.lstat().st_size
            except OSError:
                continue  # the process has not begun
            if self._able and size - begin > self._last + self._slack:
                self._logs[log] = self._punch(log, begin, size - self._last)

    def _punch(self, log: Path, begin: int, end: int) -> int:
        begin, end = -(-begin // BLOCK) * BLOCK, end // BLOCK * BLOCK
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return end  # a user's code may put anything in its place
        try:
            _give_back(descriptor, begin, end - begin)
        except OSError as error:
            self._able = False
            logger.warning("logs are kept whole, however long: %s", error)
        finally:
            os.close(descriptor)
        return end


def piece(file: IO[bytes], start: int, most: int) -> tuple[bytes, int]:
    """At most `most` bytes of a log from `start`, and where the next piece begins. Of a hole nothing is read: a piece
    ends before one, and where one begins it is empty, and the next begins where the hole ends."""
    size = file.seek(0, 2)
    if start >= size:
        return b"", start
    data = _seek(file, start, os.SEEK_DATA, size)
    if data > start:
        return b"", data
    hole = _seek(file, start, os.SEEK_HOLE, size)
    file.seek(start)
    found = file.read(min(most, hole - start))
    return found, start + len(found)


def _seek(file: IO[bytes], start: int, what: int, otherwise: int) -> int:
    """Where the next data or hole begins; `otherwise` where there is none any more."""
    try:
        return os.lseek(file.fileno(), start, what)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return otherwise


def _give_back(descriptor: int, begin: int, length: int) -> None:
    """Raises OSError, also where this system has no such call."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is None:
        raise OSError(errno.ENOSYS, "this system makes no holes in files")
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, begin, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
