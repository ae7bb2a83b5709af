"""Sealing an attempt: its last sequence numbers are known and everything up to them is here. Nothing
follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database, notify
from backend.db.models import Attempt, Batch, Job
from backend.ingest.errors import IngestError
from backend.ingest.tokens import authorize

NAMED = 10
"""Missing batches that a refusal names."""


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """The attempt's telemetry is complete."""

    batches: int
    repeated: bool
    """It was sealed with the same numbers before."""


def seal(database: Database, attempt_id: int, token: str, last_sequences: Mapping[int, int]) -> Sealed:
    """Seal with every party's last sequence number (-1: it sent nothing); returns after the commit.

    Raises IngestError: 401 wrong token, 409 batches are missing or beyond the given numbers, 410 sealed
    before with other numbers.
    """
    with database.read() as session:
        authorize(session, attempt_id, token)
    given = {str(party): last for party, last in sorted(last_sequences.items())}

    def write(session: Session) -> Sealed:
        attempt = session.get_one(Attempt, attempt_id)
        received = _received(session, attempt_id)
        if attempt.sealed:
            if attempt.last_sequences != given:
                raise IngestError(
                    410,
                    "seal",
                    given,
                    f"attempt {attempt_id} was sealed with {attempt.last_sequences}",
                    "Nothing can be added to a sealed attempt",
                )
            return Sealed(batches=sum(count for count, _ in received.values()), repeated=True)
        for party in sorted({*received, *last_sequences}):
            last = last_sequences.get(party, -1)
            count, newest = received.get(party, (0, -1))
            if count != last + 1 or newest != last:
                remedy = f"Give {newest} as its last sequence number"
                if newest <= last:
                    missing = _missing(session, attempt_id, party, last)
                    remedy = f"Send every batch from 0 to the last one first. Missing: {missing}"
                raise IngestError(
                    409,
                    "seal",
                    {party: last},
                    f"of party {party} the server has {count} batches, the newest is {newest}",
                    remedy,
                )
        attempt.sealed = True
        attempt.last_sequences = given
        job = session.get_one(Job, attempt.job_id)
        job.revision += 1
        notify(session, job.id, "sealed", {"attempt": attempt_id, "revision": job.revision})
        return Sealed(batches=sum(count for count, _ in received.values()), repeated=False)

    return database.writer.run(write)


def _received(session: Session, attempt_id: int) -> dict[int, tuple[int, int]]:
    """Party number to (how many batches, newest sequence number)."""
    query = (
        select(Batch.party, func.count(), func.max(Batch.sequence))
        .where(Batch.attempt_id == attempt_id)
        .group_by(Batch.party)
    )
    return {party: (count, newest) for party, count, newest in session.execute(query)}


def _missing(session: Session, attempt_id: int, party: int, last: int) -> str:
    query = select(Batch.sequence).where(Batch.attempt_id == attempt_id, Batch.party == party)
    received = set(session.scalars(query))
    # `last` is whatever was sent: counted up to, never laid out.
    missing = list(islice((number for number in range(last + 1) if number not in received), NAMED + 1))
    return ", ".join(map(str, missing[:NAMED])) + (", ..." if len(missing) > NAMED else "") or "none"
