"""Whether a job can begin with another job's checkpoint (`checkpoint.start`)."""

from __future__ import annotations

from sqlalchemy.orm import Session

from backend.db.models import Job
from backend.scheduler.started_with import directories
from backend.services.plans import Planned
from backend.services.stored import planned_of
from engine.checkpoint.store import kept
from engine.errors import UserError
from engine.launch import CHECKPOINTS
from engine.plan.checkpoint_rules import check_fits

_FIELD = "checkpoint.start"


def check_start(session: Session, planned: Planned) -> None:
    """Whether that is there, is one of the same model and optimizer, and has the checkpoint now. Raises UserError."""
    start = planned.spec.checkpoint.start
    if start is None:
        return
    job = session.get(Job, start.job)
    if job is None:
        raise UserError(f"{_FIELD}.job", start.job, "no such job", "Give the id of a job, or leave it out")
    other = planned_of(job)
    check_fits((other.spec, other.description), (planned.spec, planned.description))
    attempts = directories(session, start.job)
    steps = [one.step for one in kept(attempts[-1].parent / CHECKPOINTS)] if attempts else []
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
