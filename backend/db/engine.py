"""Opening a database: SQLite by default, PostgreSQL by URL. One writing connection, many reading ones.

On SQLite every connection gets: write-ahead log (readers never wait for the writer), synchronous NORMAL (a
power cut may lose the last commits, a killed process loses none), foreign keys, and a busy timeout (`?timeout=` in
the URL, in seconds). Reading
connections are `query_only`: a write that does not go through the writer fails at once instead of meeting
"database is locked" under load.

On PostgreSQL several servers write one database. Their write transactions go one after another, too: each takes a lock
first (an advisory one, of the schema) and holds it to its end, when what it wrote is visible already. So what holds of
one writer holds of all: ids of notices grow in the order of commits, and what a transaction has read stands until it
commits. Who stops in the middle, or whose machine is gone, loses its session and the lock with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import Connection

from engine.errors import UserError

EXAMPLE = "sqlite:////var/lib/trainyard/trainyard.db"

BUSY_TIMEOUT_S = 30
POOL_TIMEOUT_S = 30
IDLE_MS = 20_000
"""A write transaction that says nothing for so long ends: its server has stopped, and all others wait for it."""
GONE = ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
"""Of a writing session over a network: who does not answer for half a minute is gone."""
WRITERS = 0x7472_6169  # "trai"
"""First half of the key of the writers' lock; the second is of the schema."""
LOCK = "SELECT pg_advisory_xact_lock(%s, hashtext(coalesce(current_schema(), '')))"


def sqlite_url(path: Path) -> str:
    """URL of a SQLite file; its folder is made where it does not exist."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{os.path.realpath(path)}"


def sqlite_file(url: str) -> Path | None:
    """The file that a URL names; None where it is no SQLite file."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in {None, "", ":memory:"}:
        return None
    return Path(os.path.realpath(str(parsed.database)))  # it resolves a loop of links as far as that goes


def open_engine(url: str, *, readonly: bool, pool_size: int = 5) -> Engine:
    """An engine with this project's settings. Raises UserError for a URL that cannot work."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in {None, "", ":memory:"}:
            raise UserError(
                "database_url",
                url,
                "an in-memory SQLite is private to one connection",
                f"Give a file: {EXAMPLE}",
            )
        if "timeout" not in parsed.query:
            parsed = parsed.update_query_dict({"timeout": str(BUSY_TIMEOUT_S)})
        engine = create_engine(parsed, pool_size=pool_size, pool_timeout=POOL_TIMEOUT_S)
        _set_up_sqlite(engine, readonly=readonly)
        return engine
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(parsed, pool_size=pool_size, pool_timeout=POOL_TIMEOUT_S, pool_pre_ping=True)
        if readonly:  # REPEATABLE READ: one snapshot per session, as SQLite gives
            return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        _one_writer(engine)
        return engine
    kind = parsed.get_backend_name()
    raise UserError("database_url", kind, "is not supported", f"Use SQLite ({EXAMPLE}) or postgresql://...")


def shown(url: URL) -> str:
    """A URL for people, without the passwords that it may hold: libpq takes one among its parameters, too."""
    query = {name: "***" if "password" in name else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string()


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except exc.ArgumentError:
        shown = url.partition(":")[0][:20]  # what follows may hold a password
        raise UserError("database_url", shown, "begins no URL of a database", f"Example: {EXAMPLE}") from None


def _set_up_sqlite(engine: Engine, *, readonly: bool) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        # The driver's own transaction handling starts none for a read and commits before DDL: we say BEGIN.
        connection.isolation_level = None
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        if readonly:
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at the start, where waiting works; a later upgrade could only fail.
        connection.exec_driver_sql("BEGIN" if readonly else "BEGIN IMMEDIATE")


def _one_writer(engine: Engine) -> None:
    """Of PostgreSQL: a transaction begins when those of all other writers have ended."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            for setting in (f"idle_in_transaction_session_timeout = {IDLE_MS}", *GONE):
                cursor.execute(f"SET {setting}")
        connection.commit()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(LOCK, (WRITERS,))
