"""The database as the services see it: read sessions, and the writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.orm import Session

from backend import private
from backend.db import partitions
from backend.db.engine import open_engine, sqlite_file
from backend.db.ids import uuid7
from backend.db.migrate import upgrade
from backend.db.trouble import check_file, explained
from backend.db.writer import Writer

LOGS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside its file, with that one's permissions."""


class Database:
    """An open database with the newest schema.

    `with database.read() as session` reads one consistent snapshot; `database.writer.run(fn)` writes.
    """

    def __init__(self, url: str, *, readers: int = 8) -> None:
        """Open `url`, migrating it first. Raises SchemaError where its schema is newer than this
        program's, or of another one, DatabaseUnavailableError where it is locked, full, damaged or not there."""
        self.url = url
        if (file := sqlite_file(url)) is not None:
            check_file(file)
            _close(file)
        self._write_engine = open_engine(url, readonly=False, pool_size=1)
        with explained(self._write_engine):
            upgrade(self._write_engine)
        self._read_engine = open_engine(url, readonly=True, pool_size=readers)
        self.shared = self._write_engine.dialect.name == "postgresql"
        """Other servers may write it, too."""
        self.writer = Writer(self._write_engine)
        self._afar = None
        if self.shared:
            from backend.db.afar import Afar  # noqa: PLC0415 - its driver is an extra

            partitions.keep()
            self._afar = Afar(url, uuid7(), self.writer.heard)
            self.writer.announce = self._afar.announce

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads; rows stay usable after it ends. Raises DatabaseUnavailableError."""
        with (
            explained(self._read_engine),
            Session(self._read_engine, autoflush=False, expire_on_commit=False) as session,
        ):
            yield session

    def close(self) -> None:
        self.writer.close()
        if self._afar is not None:
            self._afar.close()
        self._read_engine.dispose()
        self._write_engine.dispose()


def _close(file: Path) -> None:
    """A SQLite database and what lies beside it are for this user only."""
    with suppress(OSError):  # SQLite says what is wrong with the place
        private.file(file)
    for suffix in LOGS:
        private.close(file.with_name(file.name + suffix))
