"""Batches on local disk, `<spool>/<party>/<sequence>.batch`: written whole or not at all, deleted when
received.

The recording process writes, another process (the attempt's supervisor) reads, sends and deletes; a killed
recorder leaves what it wrote. `acknowledged` beside the batches holds the last sequence number that the
server has, so that neither side begins again from 0 after a restart. It is overwritten in place: on a full
disk there is no room for another file, and only acknowledging makes room.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from engine.regular import NotRegularError, overwrite_regular, read_regular, write_whole
from engine.telemetry.batch import MAX_BODY_BYTES, Batch, BatchError, check, decode

SUFFIX = ".batch"
ACKNOWLEDGED = "acknowledged"
_NAME = re.compile("[0-9]{10}")


class SpoolWriter:
    """The recording side of one party."""

    def __init__(self, spool: Path, party: int) -> None:
        self._directory = spool / str(party)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._reader = SpoolReader(self._directory)
        if not self._reader.acknowledged_path.exists():
            self._reader.note(-1)
        self._waiting: deque[tuple[int, int]] = deque()  # sequence number and bytes
        self._waiting_bytes = 0

    def next_sequence(self) -> int:
        """One beyond everything ever spooled here."""
        return self._reader.last_sequence() + 1

    def write(self, sequence: int, body: bytes) -> None:
        write_whole(self._directory / f"{sequence:010d}{SUFFIX}", body, sync=True)
        self._waiting.append((sequence, len(body)))
        self._waiting_bytes += len(body)

    def waiting(self) -> tuple[int, int]:
        """Of what this writer wrote and the server does not have yet: how many batches, how many bytes."""
        acknowledged = self._reader.acknowledged()
        while self._waiting and self._waiting[0][0] <= acknowledged:
            self._waiting_bytes -= self._waiting.popleft()[1]
        return len(self._waiting), self._waiting_bytes


class SpoolReader:
    """The sending side of one party: `directory` is `<spool>/<party>`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.party = int(directory.name)
        self.acknowledged_path = directory / ACKNOWLEDGED
        self._root = directory.parents[1]  # what holds the spool, and is nobody's to replace

    def sequences(self) -> list[int]:
        """Sequence numbers of the batches that wait, ascending."""
        names = (path.stem for path in self.directory.glob(f"*{SUFFIX}"))
        return sorted(int(name) for name in names if _NAME.fullmatch(name))

    def read(self, sequence: int) -> bytes | None:
        """The batch, or None where it is torn (the machine went down while it was written), or is none (a user's code
        wrote there): it is put aside."""
        try:
            body = read_regular(self._path(sequence), MAX_BODY_BYTES + 1, root=self._root)
            check(body)
        except (BatchError, NotRegularError):
            self.set_aside(sequence)
            return None
        return body

    def set_aside(self, sequence: int) -> None:
        """Keep what is no batch under a name that is none."""
        path = self._path(sequence)
        path.rename(path.with_suffix(".torn"))

    def acknowledge(self, sequence: int) -> None:
        """The server has it: remember that first, then delete."""
        self.note(sequence)
        self.delete(sequence)

    def note(self, sequence: int) -> None:
        """Remember `sequence` as the last one that the server has."""
        overwrite_regular(self.acknowledged_path, f"{sequence:010d}".encode(), root=self._root)

    def delete(self, sequence: int) -> None:
        self._path(sequence).unlink(missing_ok=True)

    def acknowledged(self) -> int:
        """The last sequence number that the server has, -1 for none. Raises NotRegularError where a user's code put
        something else in the file's place."""
        try:
            return int(read_regular(self.acknowledged_path, 10, root=self._root))
        except (FileNotFoundError, ValueError):  # nothing yet; and to send a batch again is harmless
            return -1

    def last_sequence(self) -> int:
        """The last sequence number ever spooled, -1 for none."""
        return max([self.acknowledged(), *self.sequences()])

    def _path(self, sequence: int) -> Path:
        return self.directory / f"{sequence:010d}{SUFFIX}"


def parties(spool: Path) -> list[SpoolReader]:
    """A reader for every party that has spooled something, by party number."""
    directories = [path for path in spool.glob("*") if path.is_dir() and path.name.isdigit()]
    return [SpoolReader(path) for path in sorted(directories, key=lambda path: int(path.name))]


def batches(spool: Path) -> Iterator[Batch]:
    """Every batch that is still here, by party and in order. Raises BatchError for a damaged one."""
    for reader in parties(spool):
        for sequence in reader.sequences():
            body = reader.read(sequence)
            if body is not None:
                yield decode(body)
