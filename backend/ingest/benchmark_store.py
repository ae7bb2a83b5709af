"""The database of the ingest benchmark: a SQLite file, or a PostgreSQL of its own that commits to its disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from backend.db import Database
from backend.db.engine import sqlite_file, sqlite_url
from backend.executors import process
from backend.postgres import cluster

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
DURABLE = ("shared_buffers=256MB", "max_wal_size=2GB", "synchronous_commit=on")
"""Every commit reaches the disk before its acknowledgement. (On SQLite a power cut may take the last ones: see
`backend/db/engine.py`.)"""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where the telemetry goes."""

    url: str
    pid: int | None = None
    """Of the database's first process, where it has processes of its own."""

    def cpu_s(self) -> float:
        """Processor seconds of its own processes until now."""
        if self.pid is None:
            return 0.0
        mine = [found.pid for found in process.all_processes() if self.pid in {found.pid, found.parent}]
        return sum(map(cpu_s, mine))

    def bytes(self, database: Database) -> int:
        """What it takes on the disk."""
        if (file := sqlite_file(self.url)) is not None:
            return file.stat().st_size
        with database.read() as session:
            return int(session.scalar(text("SELECT pg_database_size(current_database())")) or 0)


@contextmanager
def store(kind: str, directory: Path) -> Iterator[Store]:
    """A database of that kind (a key of NAMES) while the block runs."""
    if kind == "sqlite":
        yield Store(url=sqlite_url(directory / "trainyard.db"))
        return
    with cluster(*DURABLE) as started:
        yield Store(url=started.new_database(), pid=started.pid)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process until now; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S
