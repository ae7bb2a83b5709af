"""Life cycle into the database: what runs inside of the writer's transactions.

The state, its transition row, the revision and the notice are always written together: `advance` is the only
place that changes the state of a job or of an attempt.
"""

from __future__ import annotations

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import notify
from backend.db.models import Attempt, Job, Transition
from backend.lifecycle import (
    ATTEMPT,
    ENDED,
    JOB,
    STOPPING,
    Event,
    InvalidTransitionError,
    Reason,
    State,
    transition,
)
from backend.scheduler import outbox
from backend.scheduler import retry as retries


def submitted(session: Session, job: Job) -> None:
    """Put a new job into the queue: the row is complete but for its state."""
    job.state = State.QUEUED
    job.queued_unix_ns = time.time_ns()
    session.add(job)
    session.flush()
    _log(session, job, None)
    tell(session, job)


def place(session: Session, job: Job, attempt: Attempt) -> None:
    """The job gets its devices and this new attempt, whose row is complete but for its state."""
    attempt.state = State.PLACING
    session.add(attempt)
    session.flush()
    _log(session, attempt, None)
    advance(session, job, None, Event.PLACED)


def advance(
    session: Session,
    job: Job,
    attempt: Attempt | None,
    event: Event,
    *,
    reason: Reason | None = None,
    message: str | None = None,
    retry: retries.Retry | None = None,
) -> None:
    """Move the job, and its attempt where one is given, by `event`.

    `reason` and `message` say why it is in the state that it moves to; those of a settled end stay. `retry` goes
    with the event of that name. Raises InvalidTransitionError with the job's story, and then nothing is changed.
    """
    before = State(job.state)
    try:
        after = transition(before, event)
    except InvalidTransitionError:
        raise InvalidTransitionError(before, event, JOB, story(session, job)) from None
    if attempt is not None:
        moved = transition(State(attempt.state), event, table=ATTEMPT)
        _move(session, attempt, moved, reason, message)
    if retry is not None:
        reason, message = Reason.BACKING_OFF, retry.text
    job.retry_unix_ns = None if retry is None else retry.at_unix_ns
    if event is Event.REQUEUED:  # behind those for whom it makes room
        job.queued_unix_ns = time.time_ns()
    _move(session, job, after, reason, message)
    tell(session, job)
    if after in ENDED:
        outbox.job_ended(session, job)


def cancel(session: Session, job: Job) -> bool:
    """A person asks for the job's end. Answers whether anything changed: a job that is ending already, or was
    cancelled, stays as it is, but for one that would be tried again. Raises InvalidTransitionError for one that
    has succeeded or failed."""
    state = State(job.state)
    attempt = job.attempts[-1] if state is not State.QUEUED and job.attempts else None
    if state is State.STOPPING_FAILED and attempt is not None and _is_retried(job, attempt):
        attempt = None  # its own end is settled
    elif state in STOPPING or state is State.CANCELLED:
        return False
    advance(session, job, attempt, Event.CANCEL, reason=Reason.CANCELLED, message=Reason.CANCELLED.summary)
    return True


def preempt(
    session: Session, job: Job, message: str = Reason.PREEMPTED.summary, for_job: str | None = None
) -> bool:
    """The job is to end its attempt with a checkpoint, and to queue again. `for_job`: the one that gets its devices;
    None: a person asks. Answers whether anything changed: one that is about to do so stays as it is. Raises
    InvalidTransitionError for one that does not run. Whether it has checkpoints, the caller knows
    (`backend.scheduler.preempt`)."""
    if job.state == State.PREEMPTING:
        return False
    attempt = job.attempts[-1] if job.attempts else None
    advance(session, job, attempt, Event.PREEMPT, reason=Reason.PREEMPTED, message=message)
    if attempt is not None:
        attempt.preempted_for = for_job
    return True


def _is_retried(job: Job, attempt: Attempt) -> bool:
    return retries.after(job, attempt, attempt.reason, attempt.message, time.time_ns()) is not None


def wait(session: Session, job: Job, reason: Reason, message: str) -> None:
    """Say why a queued job waits."""
    job.reason, job.message, job.retry_unix_ns = reason, message, None
    tell(session, job)


def story(session: Session, job: Job) -> tuple[str, ...]:
    """The states that the job went through."""
    query = select(Transition.to_state).where(Transition.job_id == job.id, Transition.attempt_id.is_(None))
    return tuple(session.scalars(query.order_by(Transition.id)))


def _move(
    session: Session, row: Job | Attempt, after: State, reason: Reason | None, message: str | None
) -> None:
    now = time.time_ns()
    before = State(row.state)
    row.state = after
    if before not in STOPPING or after not in ENDED:
        row.reason, row.message = reason, message
    if after is State.STARTING and row.started_unix_ns is None:
        row.started_unix_ns = now
    if after in ENDED:
        row.ended_unix_ns = now
    _log(session, row, before)


def _log(session: Session, row: Job | Attempt, before: State | None) -> None:
    job_id, attempt_id = (row.id, None) if isinstance(row, Job) else (row.job_id, row.id)
    session.add(
        Transition(
            job_id=job_id,
            attempt_id=attempt_id,
            from_state=before,
            to_state=row.state,
            reason=row.reason,
            message=row.message,
            at_unix_ns=time.time_ns(),
        )
    )


def tell(session: Session, job: Job) -> None:
    """The job has changed: a new revision, and a notice of it."""
    job.revision += 1
    notify(
        session,
        job.id,
        "job",
        {"job_id": job.id, "revision": job.revision, "state": job.state, "reason": job.reason},
    )
