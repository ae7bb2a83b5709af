"""Steps that a person asked to record: a file of ranges that the service writes and every recorder watches.

The ranges are step numbers, so all processes of the attempt keep the same steps, whenever each of them looks.
A file needs no connection: it reaches workers of an attempt whose server has been restarted, and workers never
listen to anybody.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.regular import read_regular

FILE = "record.json"
"""In the attempt's directory."""
MOST = 2**20
"""Bytes of it that are read."""
Range = tuple[int, int]
"""First and last step, both included."""


def read(path: Path) -> list[Range]:
    """Every range, in the order of asking; none where nobody has asked. Raises OSError or ValueError where they cannot
    be read."""
    try:
        return _ranges(read_regular(path, MOST, root=path.parent))
    except FileNotFoundError:
        return []


def added(content: bytes | None, asked: Range) -> bytes:
    """The file's new content, with one range more; `content`: the old one, None where there is no file. It is to be
    written whole, by one process and one thread at a time. Raises ValueError for content that makes no sense."""
    return json.dumps([*([] if content is None else _ranges(content)), asked]).encode()


def _ranges(content: bytes) -> list[Range]:
    return [(int(first), int(last)) for first, last in json.loads(content)]


class AskedSteps:
    """Watches the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._count = 0

    def news(self) -> list[Range]:
        """The ranges that came since the last call. Raises OSError or ValueError where they cannot be read."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        state = (found.st_ino, found.st_mtime_ns)
        if state == self._seen:
            return []
        ranges = read(self._path)
        new, self._count = ranges[self._count :], len(ranges)
        self._seen = state
        return new
