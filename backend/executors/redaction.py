"""Secrets of a job are blotted out in its logs and in what it says of its end.

A process writes to its log itself, so nobody stands between: the supervisor, which looks at the logs anyway, writes
stars over what it finds, in place, so that offsets stay what they were. Until it looks, some tenths of a second, a
secret that a program prints stands in its log. What a program writes in another form (in base64, by halves) stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

PIECE_BYTES = 1 << 20


class Redaction:
    """Holds some logs free of secrets."""

    def __init__(self, logs: Sequence[Path], secrets: Sequence[str]) -> None:
        self._secrets = [secret.encode() for secret in secrets]
        self._logs = dict.fromkeys(logs, 0) if secrets else {}
        """Up to where each has been looked at."""
        self._margin = max(map(len, self._secrets), default=1) - 1

    def hold(self) -> None:
        """Look at what is new in all logs. Raises nothing: a log that cannot be written is no reason for an attempt to
        fail."""
        for log, seen in self._logs.items():
            try:
                self._logs[log] = self._blot(log, seen)
            except OSError:
                continue  # the process has not begun, or a user's code has put something in its place

    def _blot(self, log: Path, seen: int) -> int:
        """How far it has been looked at now. What may be the beginning of a secret is looked at again."""
        size = log.lstat().st_size
        if size == seen:
            return seen
        if size < seen:  # a program may cut its own log off
            seen = 0
        descriptor = os.open(log, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return seen
            start = max(0, seen - self._margin)
            while piece := os.pread(descriptor, PIECE_BYTES, start):
                for secret in self._secrets:
                    at = piece.find(secret)
                    while at >= 0:
                        stars = b"*" * len(secret)
                        os.pwrite(descriptor, stars, start + at)
                        piece = piece[:at] + stars + piece[at + len(secret) :]
                        at = piece.find(secret, at + len(secret))
                seen = start + len(piece)
                if len(piece) <= self._margin:
                    break
                start = seen - self._margin
            return seen
        finally:
            os.close(descriptor)
