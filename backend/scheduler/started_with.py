"""Where an attempt finds the other job's checkpoint with which its job begins (`checkpoint.start`)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt
from engine.checkpoint.start import Start
from engine.plan.checkpoint import StartSpec


def start_of(session: Session, start: StartSpec | None) -> Start | None:
    """None: the job begins with none. Whether the other job is still there is found where the attempt begins: an
    earlier attempt may have taken what it needs."""
    if start is None:
        return None
    found = [each for each in directories(session, start.job) if (each / "launch.json").is_file()]
    return Start(directory=found[-1] if found else Path(start.job), step=start.step)


def directories(session: Session, job_id: str) -> list[Path]:
    """Of a job's attempts, the oldest first."""
    query = select(Attempt.directory).where(Attempt.job_id == job_id).order_by(Attempt.number)
    return [Path(each) for each in session.scalars(query)]
