"""A thread that follows what is committed: it looks when there is news, and again some seconds after trouble."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import MISSED, Database, WriterError
from backend.db.models import Notice

AGAIN_S = 5.0
"""After trouble, such as a full disk or a locked database."""
logger = logging.getLogger(__name__)


class News(NamedTuple):
    """A notice."""

    id: int
    job_id: str | None
    kind: str


def newest(session: Session) -> int:
    """The id of the newest notice; 0 where there is none."""
    return session.scalar(select(func.max(Notice.id))) or 0


def news(session: Session, since: int) -> list[News]:
    """The notices after the one with the id `since`, the oldest first."""
    query = select(Notice.id, Notice.job_id, Notice.kind).where(Notice.id > since)
    return [News(*row) for row in session.execute(query.order_by(Notice.id))]


class Watch:
    """Calls `look` on a thread of its own: once at the start, after every commit that wrote notices, when somebody
    wakes it, and in as many seconds as `look` answers (None: only then). What `look` raises is logged, and it is called
    again after AGAIN_S: it must keep what it could not do."""

    def __init__(
        self,
        database: Database,
        name: str,
        look: Callable[[], float | None],
        *,
        pace_s: float = 0.0,
        kinds: Collection[str] | None = None,
        turn: Callable[[], bool] = lambda: True,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """`pace_s`: commits that come within this time are looked at together. Only notices of these `kinds` are looked
        at, where they are given. `turn`: whether this server is the one that looks; `begin` is called before its first
        look, and again before the first one after another server did."""
        self.pace_s = pace_s
        self.again_s = AGAIN_S
        self.closed = threading.Event()
        """Set while it ends: a long look breaks off."""
        self._database = database
        self._look = look
        self._wake = threading.Event()
        self._kinds = None if kinds is None else {*kinds, MISSED}
        self._turn = turn
        self._begin = begin
        self._begun = False
        self._unlisten: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._unlisten = self._database.writer.listen(self._committed)
        self.wake()
        self._thread.start()

    def _committed(self, notices: list[Notice]) -> None:
        if self._kinds is None or any(notice.kind in self._kinds for notice in notices):
            self.wake()

    def wake(self) -> None:
        """There may be something to look at. From any thread, after the commit."""
        self._wake.set()

    def close(self) -> None:
        """Stop, after what is under way; harmless where it was never started."""
        self.closed.set()
        self._unlisten()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def _looked(self) -> float | None:
        if not self._turn():
            self._begun = False
            return None
        if not self._begun:
            self._begin()
            self._begun = True
        return self._look()

    def _loop(self) -> None:
        pause: float | None = None
        while True:
            self._wake.wait(pause)
            if self.closed.wait(self.pace_s):
                return
            self._wake.clear()
            if self.closed.is_set():  # `close` may have set both between the wait and the clearing
                return
            try:
                pause = self._looked()
            except WriterError as error:
                logger.info("%s: %s; trying again", self._thread.name, error)
                pause = self.again_s
            except Exception:  # it goes on when the trouble is over
                logger.exception("%s: could not look; trying again", self._thread.name)
                pause = self.again_s
