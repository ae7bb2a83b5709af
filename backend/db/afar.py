"""What other servers commit to a PostgreSQL: its LISTEN and NOTIFY.

Every transaction that writes notices says so on one channel of the schema, and PostgreSQL hands it on after the commit
and not before, in the order of commits. What is said is who wrote, and of each kind of notice the newest id; whoever
needs more reads the table. A session that breaks is made anew, and its listeners hear that they may have missed
something (`MISSED`).
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg
from sqlalchemy import PoolProxiedConnection, text
from sqlalchemy.orm import Session

from backend.db.engine import open_engine
from backend.db.models import Notice
from backend.db.trouble import DatabaseUnavailableError, explained
from backend.db.writer import MISSED

CHANNEL = "'trainyard_' || md5(coalesce(current_schema(), ''))"
LOOK_S = 15.0
"""A session that says nothing for so long is asked whether it is still there."""
AGAIN_S = 1.0
MOST_BYTES = 7_000
"""PostgreSQL takes less than 8,000 in one message."""
logger = logging.getLogger(__name__)


class Afar:
    """Listens while it is open, on a thread and a session of its own."""

    def __init__(self, url: str, own: str, heard: Callable[[list[Notice]], None]) -> None:
        """`own`: the name by which this server's own notices are told apart. `heard` is called on the thread. Raises
        DatabaseUnavailableError."""
        self._own = own
        self._heard = heard
        self._engine = open_engine(url, readonly=True, pool_size=1)
        self._ending, self._end = os.pipe()
        with explained(self._engine):
            self._session: PoolProxiedConnection | None = self._listen()
        self._thread = threading.Thread(target=self._loop, name="db-afar", daemon=True)
        self._thread.start()

    def announce(self, session: Session, notices: list[Notice]) -> None:
        """Say, inside of the transaction that wrote them, that these notices come."""
        session.flush()  # they have ids now
        newest = {notice.kind: notice.id for notice in notices}
        said = " ".join([self._own, *(f"{kind}:{number}" for kind, number in newest.items())])
        if len(said.encode()) > MOST_BYTES:
            said = f"{self._own} {MISSED}:0"
        session.execute(text(f"SELECT pg_notify({CHANNEL}, :said)"), {"said": said})

    def close(self) -> None:
        os.close(self._end)
        self._thread.join()
        os.close(self._ending)
        self._engine.dispose()

    def _listen(self) -> PoolProxiedConnection:
        """A session that listens."""
        with self._engine.connect() as connection:
            channel = connection.scalar(text(f"SELECT {CHANNEL}"))
        session = self._engine.raw_connection()
        try:
            driver = _driver(session)
            driver.rollback()
            driver.read_only, driver.autocommit = False, True
            driver.execute(f"LISTEN {channel}".encode())
        except BaseException:
            session.invalidate()
            session.close()
            raise
        return session

    def _loop(self) -> None:
        while True:
            try:
                if self._session is None:
                    with explained(self._engine):
                        self._session = self._listen()
                    logger.warning("this server hears of what others commit again")
                    self._tell([Notice(kind=MISSED)])
                ended = self._wait(_driver(self._session))
            except (psycopg.Error, OSError, DatabaseUnavailableError) as error:
                if self._session is not None:  # once, however long it takes to make another one
                    logger.warning("the session that hears of what other servers commit broke: %s", error)
                self._leave()
                ended = bool(select.select([self._ending], [], [], AGAIN_S)[0])
            if ended:
                self._leave()
                return

    def _wait(self, driver: psycopg.Connection) -> bool:
        """Until something was heard, or LOOK_S are over; whether it is the end."""
        ready, _, _ = select.select([driver.fileno(), self._ending], [], [], LOOK_S)
        if self._ending in ready:
            return True
        if not ready:
            driver.execute("SELECT 1")
        said = [notice.payload for notice in driver.notifies(timeout=0)]
        if others := [found for line in said for found in self._of_others(line)]:
            self._tell(others)
        return False

    def _of_others(self, line: str) -> list[Notice]:
        """What another server says. Whoever reaches the database may say anything: that may be all or nothing."""
        own, *parts = line.split(" ")
        if own == self._own:
            return []
        try:
            pairs = [part.rpartition(":") for part in parts]
            return [Notice(kind=kind, id=int(number)) for kind, _, number in pairs]
        except ValueError:
            return [Notice(kind=MISSED)]

    def _tell(self, notices: list[Notice]) -> None:
        try:
            self._heard(notices)
        except Exception:  # the next ones must be heard all the same
            logger.exception("what other servers committed could not be handed on")

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it is broken, as a rule
                session.invalidate()
                session.close()


def _driver(session: PoolProxiedConnection) -> psycopg.Connection:
    found = session.driver_connection
    assert isinstance(found, psycopg.Connection)
    return found
