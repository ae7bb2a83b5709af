"""What a race that runs waits for: one runs at a time, and its job may have to wait for a device, or for who runs."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.lifecycle import State
from backend.services.stored import race_of
from engine.errors import UserError


def waits(session: Session, race: models.Race) -> str | None:
    """In words that go on from the race's name; None where it goes on. The race has to be one that runs."""
    older = select(models.Race).where(models.Race.state == race.state, models.Race.id < race.id)
    for other in session.scalars(older.order_by(models.Race.id)):
        try:
            race_of(other)
        except UserError:  # it does not go on, and so is in nobody's way
            continue
        return f"waits for the race {other.name!r}"
    run, job = models.RaceRun, models.Job
    queued = (
        select(job.message)
        .join(run, run.job_id == job.id)
        .where(run.race_id == race.id, job.state == State.QUEUED, job.message.is_not(None))
    )
    said = session.scalar(queued.limit(1))
    return None if said is None else f"waits with its next job: {said}"
