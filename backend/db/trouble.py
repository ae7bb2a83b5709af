"""What a database could not do, for a person: value, rule and remedy instead of a driver's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, exc

NO_DATABASE = "not a database"
REMEDIES = (
    ("full", "the disk under it is full", "Free space there; what was acknowledged is safe"),
    ("locked", "another program holds its lock", "End that program, or its open transaction"),
    (NO_DATABASE, "it is no SQLite database", "Name another file with TRAINYARD_DATABASE_URL"),
    ("readonly", "it cannot be written", "Make the file and its folder writable for this user"),
    (
        "unable to open",
        "it cannot be opened",
        "Look at the folder: does it exist, is it writable, is its disk full?",
    ),
    ("disk I/O", "its disk does not read or write", "Look at the disk; free space on it where it is full"),
)
"""A part of SQLite's message, and what it means."""


class DatabaseUnavailableError(RuntimeError):
    """The database cannot do it now: nothing of it is stored, and doing it again later may help."""


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Raises DatabaseUnavailableError for what the database refuses for reasons of its surroundings."""
    try:
        yield
    except exc.DatabaseError as error:
        said = str(error.orig)
        if not isinstance(error, exc.OperationalError) and NO_DATABASE not in said:
            raise  # a statement of ours, or a rule of a table
        known = ((rule, remedy) for part, rule, remedy in REMEDIES if part in said)
        rule, remedy = next(known, ("it does not answer", "Look at it, then try again"))
        name = engine.url.database if engine.dialect.name == "sqlite" else engine.url.render_as_string()
        raise DatabaseUnavailableError(f"database {name}: {rule} ({said.strip()}). {remedy}") from error
