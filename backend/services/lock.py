"""One server per data directory and per database: two would schedule the same jobs twice."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, exc, text

from backend import private
from backend.db.engine import open_engine, sqlite_file
from backend.db.trouble import DatabaseUnavailableError, check_file, explained
from engine.errors import UserError

NAME = "server.lock"
ADVISORY = 0x7472_6169  # "trai"
"""Key of PostgreSQL's advisory lock, which is of one database."""
LOOK_S = 5.0
"""How often the session that has it is looked at: it goes with its session, and that with a restart of the database."""
END_S = 10.0
"""So long the server's end waits for a database that does not answer."""
logger = logging.getLogger(__name__)


@contextmanager
def held(data_dir: Path, address: str) -> Iterator[None]:
    """Hold the directory while the block runs. The kernel gives it free when the process ends, however it
    ends.

    Raises UserError naming the server that holds it, or where the directory cannot be written.
    """
    folder = data_dir
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("cache", "cache/descriptions", "jobs"):  # the directory itself may be somebody's home
            folder = data_dir / name
            private.folder(folder)
    except OSError as error:
        raise _unwritable("data_dir", folder, error) from None
    with _locked(data_dir / NAME, "data_dir", data_dir, address):
        yield


def end_this_server(error: UserError) -> None:
    """Another server has the database: two would start the same jobs. Those that run go on."""
    logger.critical("this server ends: %s", error)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def database_held(
    url: str, address: str, *, lost: Callable[[UserError], None] = end_this_server
) -> Iterator[None]:
    """The same for a database, which servers with different directories may share by mistake: a lock beside a SQLite
    file, an advisory lock in PostgreSQL, held by a connection that does nothing else. Where that one breaks the lock is
    taken again; `lost` is called where another server was faster. Raises DatabaseUnavailableError for a file that is
    no database."""
    file = sqlite_file(url)
    if file is None:
        with _advisory_held(url, address, lost):
            yield
        return
    check_file(file)  # beside what is no database nothing of ours is left
    with _locked(file.with_name(f"{file.name}.lock"), "database_url", file, address):
        yield


@contextmanager
def _advisory_held(url: str, address: str, lost: Callable[[UserError], None]) -> Iterator[None]:
    """Raises DatabaseUnavailableError where the database does not answer."""
    engine = open_engine(url, readonly=False, pool_size=1).execution_options(isolation_level="AUTOCOMMIT")
    over = threading.Event()
    try:
        connection = _take(engine, address)
        keeper = threading.Thread(
            target=_keep, args=(engine, connection, address, over, lost), name="database lock", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join(END_S)
            if keeper.is_alive():
                logger.warning("the database does not answer: its lock is left to the end of this process")
    finally:
        engine.dispose()


def _take(engine: Engine, address: str) -> Connection:
    """A connection whose session has the lock. Raises UserError naming who has it."""
    with explained(engine):
        connection = engine.connect()
        try:
            me = f"trainyard, {_holder(address)}"
            connection.execute(text("SELECT set_config('application_name', :me, false)"), {"me": me})
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY}):
                raise _in_use("database_url", engine.url.render_as_string(), _holding(connection))
        except BaseException:
            connection.close()
            raise
    return connection


def _keep(
    engine: Engine,
    connection: Connection,
    address: str,
    over: threading.Event,
    lost: Callable[[UserError], None],
) -> None:
    """Hold the lock until it is `over`, or another server has it."""
    while not over.wait(LOOK_S):
        try:
            if connection.closed:
                connection = _take(engine, address)
                logger.warning("the database is this server's again")
            connection.execute(text("SELECT 1"))
        except (exc.DBAPIError, DatabaseUnavailableError) as error:
            logger.warning("the session that has the database's lock broke: %s", error)
            if not connection.closed:
                connection.invalidate()
                connection.close()
        except UserError as error:
            lost(error)
            return
    # A closed session loses its lock a moment later: the next server would be refused.
    with suppress(exc.DBAPIError):
        if not connection.closed:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY})
    connection.close()


def _holding(connection: Connection) -> str:
    """What the session that has the lock says of itself; empty where it has just ended."""
    query = text(
        "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' "
        "AND granted AND (classid::bigint << 32 | objid::bigint) = :key "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return str(connection.scalar(query, {"key": ADVISORY}) or "").removeprefix("trainyard, ")


def _holder(address: str) -> str:
    return f"process {os.getpid()} at {address}"


def _in_use(field: str, value: str, holder: str) -> UserError:
    return UserError(
        field,
        value,
        f"is in use by another server ({holder or 'just starting'})",
        f"Stop that one, or choose another with TRAINYARD_{field.upper()}",
    )


def _unwritable(field: str, value: Path, error: OSError) -> UserError:
    rule = f"cannot be written ({error.strerror})"
    return UserError(field, str(value), rule, f"Choose another with TRAINYARD_{field.upper()}")


@contextmanager
def _locked(path: Path, field: str, value: Path, address: str) -> Iterator[None]:
    try:
        # Whoever opens a pipe waits; behind a link is somebody's file, and what is written here takes its place.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(errno.EINVAL, f"{path.name} is no file")
        private.file(path)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise _unwritable(field, value, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _in_use(field, str(value), file.read().strip()) from None
        file.truncate(0)
        with suppress(OSError):  # on a full disk the lock holds, only who has it is not written
            os.write(file.fileno(), f"{_holder(address)}\n".encode())
        yield
