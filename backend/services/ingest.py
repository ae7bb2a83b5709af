"""Telemetry in, from `backend.ingest`, as the API answers it."""

from __future__ import annotations

from collections.abc import Mapping

from backend import ingest
from backend.db import Database
from backend.ingest import MAX_BODY_BYTES, needed
from backend.schemas.ingest import Accepted, Sealed
from backend.services.measures import Measures

__all__ = ["MAX_BODY_BYTES", "accept", "authorize", "needed", "seal"]


def authorize(database: Database, attempt: int, token: str) -> None:
    """Raises IngestError 401 where the token is not the attempt's own."""
    with database.read() as session:
        ingest.authorize(session, attempt, token)


def accept(database: Database, attempt: int, token: str, body: bytes, measures: Measures) -> Accepted:
    """Store one batch, and count it; see `backend.ingest.accept`."""
    found = ingest.accept(database, attempt, token, body)
    if not found.repeated:
        measures.stored(found.events, found.lag_s)
    return Accepted(party=found.party, sequence=found.sequence, repeated=found.repeated)


def seal(database: Database, attempt: int, token: str, last_sequences: Mapping[int, int]) -> Sealed:
    """Seal an attempt; see `backend.ingest.seal`."""
    return Sealed(**vars(ingest.seal(database, attempt, token, last_sequences)))
