"""Whether a job can begin with another job's checkpoint (`checkpoint.start`)."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Job
from backend.executors.attempt_files import FilesOf
from backend.scheduler.started_with import directories
from backend.services.plans import Planned
from backend.services.stored import planned_of
from engine.errors import UserError
from engine.plan.checkpoint import StartSpec
from engine.plan.checkpoint_rules import check_fits

_FIELD = "checkpoint.start"
_ENOUGH = 8
"""Characters of an id by which somebody may mean a job."""


def check_start(database: Database, planned: Planned, files: FilesOf) -> None:
    """Whether that is there, is one of the same model and optimizer, and has the checkpoint now. Raises UserError, and
    FilesAwayError where the machine with its files cannot be asked. No transaction waits for the files."""
    start = planned.spec.checkpoint.start
    if start is None:
        return
    with database.read() as session:
        other = planned_of(_job(session, start))
        attempts = directories(session, start.job)
    check_fits((other.spec, other.description), (planned.spec, planned.description))
    steps = [one.step for one in files(attempts[0]).checkpoints()] if attempts else []
    if not steps:
        rule = "that job has no checkpoint that this server sees"
        raise UserError(f"{_FIELD}.job", start.job, rule, "Name a job with one, or wait until it has one")
    if start.step is not None and start.step not in steps:
        known = ", ".join(map(str, steps))
        raise UserError(
            f"{_FIELD}.step", start.step, "that job has no checkpoint of it", f"There are: {known}"
        )
    total, begins = planned.spec.training.steps, start.step or steps[0]
    if total is not None and total <= begins:
        rule = f"the checkpoint that the job begins with was made after {begins} steps"
        raise UserError("training.steps", total, rule, "Let it have more, or name an earlier step")


def check_start_there(session: Session, start: StartSpec | None) -> None:
    """Whether the other job is still there. Raises UserError."""
    if start is not None:
        _job(session, start)


def _job(session: Session, start: StartSpec) -> Job:
    job = session.get(Job, start.job)
    if job is None:
        like = select(Job.id).where(Job.id.startswith(start.job, autoescape=True)).limit(2)
        found = session.scalars(like).all() if len(start.job) >= _ENOUGH else []
        whole = f"the whole id: {found[0]}" if len(found) == 1 else "the id of a job, or leave it out"
        raise UserError(f"{_FIELD}.job", start.job, "no such job", f"Give {whole}")
    return job
