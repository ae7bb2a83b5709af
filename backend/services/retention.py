"""Telemetry that is old goes: what an attempt recorded by layer and by link, and its raw batches, which are by far most
of the database. Steps, metrics, links and speed-ups stay, and so do the job's figures and its curves.

A thread looks every hour (of several servers, that of one). On PostgreSQL it drops the partitions whose attempts have
all been over for so long (`backend/db/partitions.py`): an attempt may therefore stay until its partition is full and
the last of its neighbours is old. On SQLite it deletes rows, in portions, so that nobody waits for millions of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import Session

from backend.db import Database, partitions
from backend.db.models import Attempt, Base
from backend.lifecycle import ENDED
from backend.scheduler import record
from backend.services.removal import portion
from backend.services.watch import Watch

EVERY_S = 3_600.0
DAY_NS = 86_400 * 10**9


class Retention:
    """Removes what is older than so many days."""

    def __init__(self, database: Database, days: float, turn: Callable[[], bool] = lambda: True) -> None:
        """`turn`: whether this server is the one that does it."""
        self._database = database
        self._days = days
        self.watch = Watch(database, "retention", self.look, kinds=(), turn=turn)

    def look(self) -> float:
        """Remove what is due; in how many seconds to look again."""
        before = time.time_ns() - round(self._days * DAY_NS)
        if self._database.shared:
            for since, first in self._whole(before):
                self._database.writer.run(partial(self._drop, since=since, first=first))
            return EVERY_S
        old = and_(Attempt.state.in_(ENDED), Attempt.ended_unix_ns < before)
        with self._database.read() as session:
            due = session.scalars(_remembered(old)).all()
        for attempt in due:
            for name in partitions.parted():
                table = Base.metadata.tables[name]
                while self._database.writer.run(partial(portion, table=table, attempt_id=attempt)):
                    if self.watch.closed.is_set():
                        return EVERY_S
            self._database.writer.run(partial(self._forget, which=Attempt.id == attempt))
        return EVERY_S

    def _whole(self, before: int) -> list[tuple[int, int]]:
        """The partitions that are full, and of which every attempt is old: each from which attempt on, and its first
        one, by which it is called (that which was there before partitions were begins earlier)."""
        ended = Attempt.ended_unix_ns
        young = or_(Attempt.state.not_in(ENDED), ended.is_(None), ended >= before)
        with self._database.read() as session:
            parts = partitions.there(session.connection())
            newest = session.scalar(select(func.max(Attempt.id))) or 0
            kept = sorted(session.scalars(select(Attempt.id).where(young)))
        begins = [0, *(first + partitions.SPAN for first in parts)]
        return [
            (since, first)
            for since, first in zip(begins, parts, strict=False)
            if newest >= first + partitions.SPAN
            and not any(since <= attempt < first + partitions.SPAN for attempt in kept)
        ]

    def _drop(self, session: Session, *, since: int, first: int) -> None:
        """The rule holds still: an attempt that has ended begins no more."""
        partitions.drop(session.connection(), first)
        self._forget(session, and_(Attempt.id >= since, Attempt.id < first + partitions.SPAN))

    def _forget(self, session: Session, which: ColumnElement[bool]) -> None:
        """Say so, once for each job."""
        now = time.time_ns()
        day = datetime.fromtimestamp(now / 1e9, UTC).strftime("%Y-%m-%d")
        text = f"What it recorded by layer and by link was removed on {day}, after {self._days:g} days"
        for id_ in session.scalars(_remembered(which)).all():
            attempt = session.get_one(Attempt, id_)
            attempt.forgotten_unix_ns = now
            before = (attempt.job.message or "").rstrip(".")
            if text not in before:
                attempt.job.message = f"{before}. {text}" if before else text
                record.tell(session, attempt.job)


def _remembered(which: ColumnElement[bool]) -> Select[int]:
    """Of these attempts, whose telemetry is there, the oldest first."""
    return select(Attempt.id).where(which, Attempt.forgotten_unix_ns.is_(None)).order_by(Attempt.id)
