"""The contract of an attempt's files: what the service reads and writes of them, wherever they lie.

They may be on this machine's disk or on another machine's, so no method takes or answers an open file, and each is one
question with one answer. Names are those that `engine/launch.py` gives, below the attempt's directory, with `/` between
folders. A user's code writes there, too: an executor reads regular files only, through no link, and waits for nobody
who might write into a pipe.

Every method raises FilesAwayError where the machine with the files cannot be asked now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.checkpoint.store import Kept
from engine.telemetry.uploader import UploadEnd

DRAINS_AT_ONCE = 8
"""Spools that one server sends at a time."""


class FilesAwayError(RuntimeError):
    """The machine that has an attempt's files is out of reach for now; they are not lost."""

    def __init__(self, directory: str, node: str, why: str) -> None:
        """`node`: the machine's name. `why`: what was seen, e.g. `it has not answered for 10 s`."""
        super().__init__(
            f"{directory} cannot be read or written: it lies on {node}, which this server does not reach ({why}). Its "
            f"files are there as they were. Start {node} again, or mend the network to it, and ask again"
        )
        self.directory = directory
        self.node = node


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a file."""

    offset: int
    """Where `content` begins, in bytes."""
    content: bytes
    """Empty at the file's end, and where a hole begins: what had been printed there is not kept (`log_limit.py`)."""
    next_offset: int
    """Where to read on: the end of `content`, or of the hole."""
    size: int
    """Of the whole file, in bytes, when it was read."""


class AttemptFiles(Protocol):
    """What lies in the directory of one attempt. Methods may be called from several threads at once."""

    @property
    def directory(self) -> str:
        """The text in the attempt's row, for people."""

    def there(self) -> bool:
        """Whether the attempt's directory exists. False, and no FilesAwayError, where its machine was given up for
        ever: then nothing below raises that either, and there is nothing to remove."""

    def reachable(self) -> bool:
        """Whether this server could look after the attempt: read its files, and write some. The directory need not be
        there yet. False, and no FilesAwayError, where the machine is out of reach. A transaction waits for the answer:
        it comes within a second."""

    def size(self, name: str) -> int | None:
        """Bytes of a regular file; None where there is none of this name."""

    def read(self, name: str, offset: int, most: int) -> Piece:
        """At most `most` bytes of a regular file, from `offset` on; a negative offset counts from the end. An offset
        beyond the end is the end. A piece ends before a hole, and holds nothing of one.

        Raises FileNotFoundError where nothing is, NotRegularError where something else is there or a link is on the
        way, ValueError for a name that leads out of the directory, and OSError.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a small file of the directory itself, for this user only: a reader sees either what was there or the
        whole new one, also after a power cut. Whatever had the name is replaced. Raises ValueError for a name in a
        folder, and OSError: a full disk, or no directory."""

    def failed_party(self) -> str | None:
        """The process whose failure ended the attempt, e.g. `worker 1`; None where none has, or it is not known."""

    def drain(self, url: str, timeout_s: float) -> UploadEnd | None:
        """Send what is left in the attempt's spool to the server at `url`, from where the spool is, and seal the
        attempt. Call it once the attempt has ended; takes about `timeout_s`. None where there is nothing to send:
        it was never launched, or its directory is gone. What was not sent stays, for another call."""

    def remove(self, job_id: str) -> None:
        """Remove the directory, the job's checkpoints, and the job's folder with its last attempt. For a job that goes
        with all its attempts. Harmless where nothing is left. Raises OSError, then some may be left."""

    def checkpoints(self) -> list[Kept]:
        """The job's checkpoints, the newest first: step, bytes, and when each was written. Whether they are whole is
        not looked at. They are the same for all attempts of a job."""

    def ended_steps(self) -> int | None:
        """After how many steps the attempt ended, where it has written its model; else None."""

    def local(self, step: int | None) -> AbstractContextManager[Path]:
        """A directory of this machine that `engine/runtime/export.py` can read the job's checkpoint of this step from,
        or (None) what the attempt ended with, as long as the block lasts. `launch.json` is in it, and leads to the
        checkpoint. A file that has vanished is missing there: the export says so. Raises OSError where there is no room
        for a copy."""


FilesOf = Callable[[str], AttemptFiles]
"""The files of the attempt with this directory: `Executor.files`."""
