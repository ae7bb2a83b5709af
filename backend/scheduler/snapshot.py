"""The scheduler's view of the database: what waits, what runs, what is occupied by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, load_only

from backend.db.models import Attempt, Job
from backend.lifecycle import ACTIVE, State
from backend.scheduler import decide
from engine.plan.job import ClusterSpec
from engine.plan.serde import from_plain

# Plans and descriptions are large, and these are read often: only what is needed is loaded.
WAITING = load_only(
    Job.name,
    Job.spec,
    Job.state,
    Job.reason,
    Job.message,
    Job.priority,
    Job.created_unix_ns,
    Job.queued_unix_ns,
    Job.revision,
    raiseload=True,
)
"""What is needed of a job that waits."""


def queued_jobs(session: Session, now_unix_ns: int) -> Sequence[Job]:
    """Jobs that may be placed now, in no particular order, without their plans: those that back off are not in
    anybody's way."""
    due = Job.retry_unix_ns.is_(None) | (Job.retry_unix_ns <= now_unix_ns)
    return session.scalars(select(Job).where(Job.state == State.QUEUED, due).options(WAITING)).all()


def next_retry(session: Session, now_unix_ns: int) -> int | None:
    """When the next job that backs off comes back into the queue; None: there is none."""
    waits = (Job.state == State.QUEUED, Job.retry_unix_ns > now_unix_ns)
    return session.scalar(select(func.min(Job.retry_unix_ns)).where(*waits))


def active_attempts(session: Session) -> Sequence[Attempt]:
    """Attempts that hold devices, each with its job's name."""
    job = joinedload(Attempt.job).load_only(Job.name, raiseload=True)
    query = select(Attempt).where(Attempt.state.in_(ACTIVE)).options(job)
    return session.scalars(query.order_by(Attempt.id)).all()


def occupied(session: Session) -> dict[str, decide.Occupant]:
    """Device id to who holds it."""
    return {
        device: decide.Occupant(job_id=attempt.job_id, job_name=attempt.job.name)
        for attempt in active_attempts(session)
        for device in attempt.devices
    }


def queued_job(job: Job) -> decide.QueuedJob:
    """A job's row as decisions see it."""
    cluster = from_plain(ClusterSpec, job.spec["cluster"])
    if job.spec.get("fidelity") == "rehearse":  # as JobSpec.demand says
        cluster = replace(cluster, device="cpu")
    return decide.QueuedJob(
        id=job.id,
        name=job.name,
        cluster=cluster,
        priority=job.priority,
        queued_unix_ns=job.queued_unix_ns or job.created_unix_ns,
    )


def state(session: Session, jobs: Sequence[Job], inventory: decide.Inventory) -> decide.State:
    """All that `decide` wants to know; `jobs` wait."""
    return decide.State(
        queued=tuple(map(queued_job, jobs)),
        inventory=inventory,
        occupied=occupied(session),
    )
