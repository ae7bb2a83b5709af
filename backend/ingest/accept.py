"""One batch into the database: the raw batch, its rollups and one notice, in one transaction.

A party may send a batch again whenever it did not hear the answer: the same (attempt, party, sequence) with
the same content changes nothing and is acknowledged; with other content it is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database, notify
from backend.db.models import Attempt, Batch, Job
from backend.ingest.errors import IngestError
from backend.ingest.rollups import joined
from backend.ingest.room import limit_rows
from backend.ingest.rows import build, number
from backend.ingest.tokens import authorize
from engine.telemetry import batch as wire
from engine.telemetry.batch_limits import MOST_AHEAD

MAX_BODY_BYTES = wire.MAX_BODY_BYTES
MOST_KNOWN = 1_024
_known_layers: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The acknowledgement: what the server holds for good."""

    party: int
    sequence: int
    repeated: bool
    """It was there already; nothing changed."""
    events: int = 0
    """Detailed events in it."""
    lag_s: float | None = None
    """From the newest time in it, by the job's clock, until it was received. None: it has no times, or no clock."""


def accept(database: Database, attempt_id: int, token: str, body: bytes) -> Accepted:
    """Store one batch; returns after the commit.

    Raises IngestError: 400 no batch or not of this attempt, 401 wrong token, 409 other content under the same
    number or a number far ahead, 410 the attempt is sealed, 413 too large.
    """
    if len(body) > MAX_BODY_BYTES:
        rule = f"a batch has at most {MAX_BODY_BYTES} bytes"
        raise IngestError(413, "body", f"{len(body)} bytes", rule, "Flush more often")
    with database.read() as session:
        attempt = authorize(session, attempt_id, token)
        layers = _layers(session, attempt.job_id)
    try:
        sha256 = wire.check(body)
        batch = wire.decode(body)
    except wire.BatchError as error:
        raise IngestError(400, "body", f"{len(body)} bytes", str(error), "Send a whole batch") from None
    if batch.attempt != attempt_id:
        rule = f"the batch was posted to attempt {attempt_id}"
        raise IngestError(400, "attempt", batch.attempt, rule, "Post it to its own")
    if attempt.parties and batch.party >= len(attempt.parties):
        raise IngestError(
            400,
            "party",
            batch.party,
            f"attempt {attempt_id} has {len(attempt.parties)} parties: {', '.join(attempt.parties)}",
            "Number them from 0",
        )
    limit_rows(joined(batch))  # before Python's objects are made of them
    rollups = build(batch, layers)
    limit_rows(sum(len(table.rows) for table in rollups))
    first_step, last_step = batch.step_range
    first_ns, last_ns = batch.time_range
    row = Batch(
        attempt_id=attempt_id,
        party=batch.party,
        sequence=batch.sequence,
        sha256=sha256,
        events=len(batch.table("events")),
        first_step=first_step,
        last_step=last_step,
        first_ns=first_ns,
        last_ns=last_ns,
        received_unix_ns=time.time_ns(),
        body=body,
    )

    def write(session: Session) -> Accepted:
        held = session.get(Batch, (attempt_id, batch.party, batch.sequence))
        if held is not None:
            return _repeated(held, sha256)
        current = session.get_one(Attempt, attempt_id)
        if current.sealed or current.forgotten_unix_ns is not None:
            why = "sealed" if current.sealed else "so old that its telemetry was removed"
            rule = f"it is {why}: it takes no more batches"
            raise IngestError(410, "attempt", attempt_id, rule, "Start a new attempt")
        _check_order(session, batch)
        session.add(row)
        for rows in rollups:
            rows.store(session)
        job = session.get_one(Job, current.job_id)
        job.revision += 1
        notify(session, job.id, "telemetry", _news(batch, current, job.revision))
        return Accepted(
            party=batch.party,
            sequence=batch.sequence,
            repeated=False,
            events=row.events,
            lag_s=_lag_s(batch, current.epoch_unix_ns, row.received_unix_ns),
        )

    return database.writer.run(write)


def _check_order(session: Session, batch: wire.Batch) -> None:
    """Raises IngestError for a number that no party can have come to. Sealing would miss all those before it."""
    mine = (Batch.attempt_id == batch.attempt, Batch.party == batch.party)
    newest = session.scalar(select(func.max(Batch.sequence)).where(*mine))
    due = 0 if newest is None else newest + 1
    if batch.sequence > due + MOST_AHEAD:
        raise IngestError(
            409,
            "sequence",
            batch.sequence,
            f"of party {batch.party} the next is {due}, and the furthest that is taken {due + MOST_AHEAD}",
            "Send a party's batches in the order of their numbers",
        )


def _lag_s(batch: wire.Batch, epoch_unix_ns: int | None, received_unix_ns: int) -> float | None:
    newest = max(batch.time_range[1], int(batch.table("steps")["end"].max(initial=-1)))
    if epoch_unix_ns is None or newest < 0:
        return None
    return (received_unix_ns - epoch_unix_ns - newest) / 1e9


def _layers(session: Session, job_id: str) -> int:
    """Layers of the job's network; looked up once, since descriptions are large."""
    if job_id not in _known_layers:
        description = session.scalar(select(Job.description).where(Job.id == job_id))
        if len(_known_layers) >= MOST_KNOWN:
            _known_layers.clear()
        _known_layers[job_id] = len((description or {}).get("layers", []))
    return _known_layers[job_id]


def _repeated(held: Batch, sha256: str) -> Accepted:
    if held.sha256 != sha256:
        raise IngestError(
            409,
            "sequence",
            held.sequence,
            f"party {held.party} of attempt {held.attempt_id} already sent this number with other content "
            f"({held.sha256[:12]}, now {sha256[:12]})",
            "A party gives every number once: was its spool restored from a copy?",
        )
    return Accepted(party=held.party, sequence=held.sequence, repeated=True)


def _news(batch: wire.Batch, attempt: Attempt, revision: int) -> dict[str, Any]:
    """What a page needs to update its headline without asking: the latest values, never bulk data."""
    news: dict[str, Any] = {
        "attempt": attempt.id,
        "party": batch.party,
        "sequence": batch.sequence,
        "revision": revision,
        "events": len(batch.table("events")),
    }
    steps = batch.table("steps")
    if len(steps):
        last = steps[steps["step"].argmax()]
        news |= {"step": int(last["step"]), "end_ns": int(last["end"]), "loss": number(float(last["loss"]))}
    metrics = batch.table("metrics")
    if len(metrics):
        news["metrics"] = {
            batch.metrics[int(row["name"])]: {"step": int(row["step"]), "value": number(float(row["value"]))}
            for row in metrics
        }
    return news
