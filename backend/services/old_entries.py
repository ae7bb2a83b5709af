"""Entries of a log that are old go: of the audit log, of what webhooks were told. A thread looks every hour; of several
servers, that of one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import AuditEntry, Delivery
from backend.services.retention import DAY_NS, EVERY_S
from backend.services.watch import Watch

PORTION = 1_000
"""So many entries go in one transaction: nobody waits for more."""
logger = logging.getLogger(__name__)


class OldEntries:
    """Removes what is older than so many days, of rows whose ids are in the order in which they came."""

    def __init__(
        self,
        database: Database,
        kind: type[AuditEntry] | type[Delivery],
        days: float,
        turn: Callable[[], bool] = lambda: True,
    ) -> None:
        """`kind`: of which table. `turn`: whether this server is the one that does it."""
        self._database = database
        self._kind = kind
        self._days = days
        self.watch = Watch(database, f"old {kind.__tablename__}", self.look, kinds=(), turn=turn)

    def look(self) -> float:
        """Remove what is due; in how many seconds to look again."""
        gone = 0
        while (removed := self._database.writer.run(self._remove)) and not self.watch.closed.is_set():
            gone += removed
        if gone:
            logger.info(
                "%d %s went, which were older than %g days", gone, self._kind.__tablename__, self._days
            )
        return EVERY_S

    def _remove(self, session: Session) -> int:
        """The oldest that are due; how many. Entries have ids in the order in which they came: what is young is not
        looked at."""
        row, before = self._kind, time.time_ns() - round(self._days * DAY_NS)
        query = select(row.id, row.at_unix_ns).order_by(row.id).limit(PORTION)
        if row is Delivery:  # what was never tried is still to be sent
            query = query.where(Delivery.tries > 0)
        oldest = session.execute(query)
        due = [id_ for id_, at in oldest if at < before]
        session.execute(delete(row).where(row.id.in_(due)))
        return len(due)
