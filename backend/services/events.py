"""Detailed events of a job, out of the raw batches that hold them."""

from __future__ import annotations

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Batch
from backend.schemas.telemetry import Events
from engine.telemetry.batch import decode
from engine.telemetry.events import EVENT, Kind, Track

MAX_EVENTS = 20_000
_WITH_PARTY = np.dtype([("party", "<i2"), *EVENT.descr])


def read(
    session: Session,
    attempt_id: int,
    *,
    worker: int | None,
    step_from: int,
    step_to: int,
    limit: int,
    layers: list[str],
    parties: list[str],
) -> Events:
    """Events of steps `step_from` to `step_to` (both included), in order of their start, at most `limit`."""
    query = select(Batch.party, Batch.body).where(
        Batch.attempt_id == attempt_id,
        Batch.events > 0,
        Batch.first_step <= step_to,
        Batch.last_step >= step_from,
    )
    if worker is not None:
        query = query.where(Batch.party == worker)
    parts = [np.empty(0, _WITH_PARTY)]
    found, truncated = 0, False
    for party, body in session.execute(query.order_by(Batch.first_ns).execution_options(yield_per=8)):
        events = decode(body).table("events")
        events = events[(events["step"] >= step_from) & (events["step"] <= step_to)]
        rows = np.empty(len(events), _WITH_PARTY)
        rows["party"] = party
        for column in EVENT.names or ():
            rows[column] = events[column]
        parts.append(rows)
        found += len(rows)
        if found > 4 * limit:  # enough to choose the first `limit` from; memory stays bounded
            truncated = True
            break
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows["start"], kind="stable")][:limit]
    return Events(
        worker=rows["party"].tolist(),
        step=rows["step"].tolist(),
        layer=rows["layer"].tolist(),
        unit=rows["unit"].tolist(),
        kind=[Kind(k).name.lower() for k in rows["kind"].tolist()],
        track=[Track(t).name.lower() for t in rows["track"].tolist()],
        peer=rows["peer"].tolist(),
        priority=rows["priority"].tolist(),
        queued_ns=rows["queued"].tolist(),
        start_ns=rows["start"].tolist(),
        end_ns=rows["end"].tolist(),
        bytes=rows["bytes"].tolist(),
        layers=layers,
        parties=parties,
        truncated=truncated or found > limit,
    )
