"""Where an attempt finds the other job's checkpoint with which its job begins (`checkpoint.start`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt
from backend.executors.attempt_files import FilesOf
from engine.checkpoint.start import Start
from engine.launch import LAUNCH
from engine.plan.checkpoint import StartSpec


def start_of(start: StartSpec, attempts: Iterable[str], files: FilesOf) -> Start:
    """`attempts`: `directories` of the other job. Whether it is still there is found where the attempt begins: an
    earlier attempt may have taken what it needs. Raises FilesAwayError."""
    launched = (Path(each) for each in attempts if files(each).size(LAUNCH) is not None)
    return Start(job=start.job, directory=next(launched, None), step=start.step)


def directories(session: Session, job_id: str) -> list[str]:
    """Of a job's attempts, the newest first. All that were launched lead to the same checkpoints."""
    query = select(Attempt.directory).where(Attempt.job_id == job_id).order_by(Attempt.number.desc())
    return list(session.scalars(query))
