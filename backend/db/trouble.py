"""What a database could not do, for a person: value, rule and remedy instead of a driver's words."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, exc

from backend.db.engine import shown
from backend.errors import SurroundingsError

NO_DATABASE = "not a database"
DAMAGED = "malformed"
MAGIC = b"SQLite format 3\0"
"""So begins every file of SQLite's that is not empty."""
REMEDIES = (
    ("full", "the disk under it is full", "Free space there; what was acknowledged is safe"),
    ("locked", "another program holds its lock", "End that program, or its open transaction"),
    (NO_DATABASE, "it is no SQLite database", "Name another file with TRAINYARD_DATABASE_URL"),
    (
        DAMAGED,
        "it is damaged",
        "Put a copy of it in its place, or move it away to begin with an empty one. `sqlite3 FILE .recover` may save "
        "a part; the jobs' directories are not affected",
    ),
    ("readonly", "it cannot be written", "Make the file and its folder writable for this user"),
    (
        "unable to open",
        "it cannot be opened",
        "Look at the folder: does it exist, is it writable, is its disk full?",
    ),
    ("disk I/O", "its disk does not read or write", "Look at the disk; free space on it where it is full"),
)
"""A part of SQLite's message, and what it means."""


class DatabaseUnavailableError(SurroundingsError):
    """The database cannot do it now: nothing of it is stored, and doing it again later may help."""


def check_file(path: Path) -> None:
    """Raises DatabaseUnavailableError for what SQLite says too late, or has no words for: something else than a file in
    the place of a database, a file that is none, whose permissions are not ours to change, and one that can only be
    read, which SQLite would say at the first write."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # not there yet, or SQLite says what is wrong
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise DatabaseUnavailableError(
            f"database {path}: it is {what}, and no file. Move it away, or name another file with "
            "TRAINYARD_DATABASE_URL"
        )
    if not os.access(path, os.R_OK):
        return  # SQLite says so
    with path.open("rb") as file:
        begins = file.read(len(MAGIC))
    wrong = NO_DATABASE if begins not in {b"", MAGIC} else None if os.access(path, os.W_OK) else "readonly"
    if wrong is not None:
        rule, remedy = _meaning(wrong)
        raise DatabaseUnavailableError(f"database {path}: {rule}. {remedy}")


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Raises DatabaseUnavailableError for what the database refuses for reasons of its surroundings."""
    try:
        yield
    except exc.DatabaseError as error:
        said = str(error.orig)
        if not isinstance(error, exc.OperationalError) and NO_DATABASE not in said and DAMAGED not in said:
            raise  # a statement of ours, or a rule of a table
        rule, remedy = _meaning(said)
        name = engine.url.database if engine.dialect.name == "sqlite" else shown(engine.url)
        raise DatabaseUnavailableError(f"database {name}: {rule} ({said.strip()}). {remedy}") from error


def _meaning(said: str) -> tuple[str, str]:
    known = ((rule, remedy) for part, rule, remedy in REMEDIES if part in said)
    return next(known, ("it does not answer", "Look at it, then try again"))
