"""The audit log: who did what to which thing, when, and from where. It is added to, and read; what is old goes.

An entry is stored after what it tells of and before its answer leaves, so whoever was answered is in the log. Only a
server that is killed in between leaves something undone by nobody, which nobody was told of either.
"""

from __future__ import annotations

import time
from concurrent.futures import Future

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.access.rights import Caller
from backend.db import Database
from backend.db.models import AuditEntry
from backend.db.models.audit import TARGET_LENGTH
from backend.schemas import people as schema
from backend.services import cursor as cursors
from backend.services.times import moment

ADDRESS_LENGTH = 100


class Audit:
    """Of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        caller: Caller,
        action: str,
        target: str,
        address: str | None,
        status: int,
        details: schema.AuditDetails | None = None,
    ) -> Future[None]:
        """Somebody did something, or was answered that they may not. Done when it is stored."""
        row = AuditEntry(
            at_unix_ns=time.time_ns(),
            who=caller.name,
            token=caller.token_name,
            action=action,
            target=target[:TARGET_LENGTH],
            address=None if address is None else address[:ADDRESS_LENGTH],
            status=status,
            details=None if details is None else details.model_dump(mode="json", exclude_none=True),
        )

        def write(session: Session) -> None:
            session.add(row)

        return self._database.writer.submit(write)

    def page(self, asked: schema.AuditQuery) -> schema.AuditPage:
        """Newest first. Raises UserError for a cursor that is none."""
        row = AuditEntry
        query = select(row)
        for column, wanted in ((row.who, asked.who), (row.action, asked.action), (row.target, asked.target)):
            if wanted is not None:
                query = query.where(column == wanted)
        with self._database.read() as session:
            rows, following = cursors.page(
                session, query, row.id, limit=asked.limit, cursor=asked.cursor, read=cursors.number
            )
        items = [
            schema.AuditEntryView(
                id=each.id,
                at=moment(each.at_unix_ns),
                who=each.who,
                token=each.token,
                action=each.action,
                target=each.target,
                address=each.address,
                status=each.status,
                details=None if each.details is None else schema.AuditDetails.model_validate(each.details),
            )
            for each in rows
        ]
        return schema.AuditPage(items=items, next_cursor=following)
