"""From which step an attempt goes on."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Metric
from engine.telemetry.resumption import RESUMED


def resumed_step(session: Session, attempt: int) -> int | None:
    """Of the checkpoint that the attempt goes on from, as its worker 0 has said; None: it began at step 0, or has not
    begun."""
    query = select(Metric.step).where(Metric.attempt_id == attempt, Metric.name == RESUMED)
    return session.scalars(query.limit(1)).first()
