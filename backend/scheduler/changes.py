"""The scheduler's transactions: what it saw or decided, written down.

Each looks at the rows again before it writes: since the scheduler looked, a person may have cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session, load_only

from backend.db import notify
from backend.db.models import Attempt, AuditEntry, Job, Maintenance
from backend.executors.base import Ended, Handle, Running
from backend.lifecycle import (
    ACTIVE,
    ATTEMPT,
    STOPPING,
    Event,
    Reason,
    State,
    closing_events,
    is_allowed,
)
from backend.scheduler import maintenance, record, retry
from backend.scheduler.instructions import Preempt, Refuse, Wait
from engine.plan.serde import from_plain

# Plans and descriptions are large: what a wait does not need is not loaded.
WAITING = load_only(Job.state, Job.reason, Job.message, Job.revision, raiseload=True)
WHO = "the scheduler"
"""In the audit log. No user has such a name: theirs have no spaces."""
INTERRUPTIONS = 3
"""So many of a job's launches may be interrupted; then it fails instead of queueing again."""


def handle_of(attempt: Attempt) -> Handle | None:
    """The executor's handle; None where the launch was not recorded. Raises UserError where another version of this
    program wrote it."""
    return None if attempt.handle is None else from_plain(Handle, attempt.handle)


def events_of(state: State, report: Running) -> tuple[Event, ...]:
    """What happened, when an attempt in `state` is found as the report says. A settled end stays."""
    if state in STOPPING or report.phase == "starting":
        return ()
    if report.phase == "stopping":
        return closing_events(state, report.outcome)[:-1]
    before = {State.PLACING: (Event.LAUNCHED, Event.BEGAN), State.STARTING: (Event.BEGAN,)}
    return before.get(state, ())


def wait(session: Session, instructions: Sequence[Wait]) -> None:
    """Say why jobs wait, all in one transaction."""
    for instruction in instructions:
        job = session.get_one(Job, instruction.job_id, options=[WAITING])
        if job.state == State.QUEUED:
            record.wait(session, job, instruction.reason, instruction.text)


def refuse(session: Session, instruction: Refuse) -> None:
    """A queued job that can never run ends."""
    job = session.get_one(Job, instruction.job_id)
    if job.state == State.QUEUED:
        text = str(instruction.error)
        record.advance(session, job, None, Event.REFUSED, reason=Reason.TOO_FEW_DEVICES, message=text)


def end_maintenance(session: Session, now_unix_ns: int) -> None:
    """What had an end, and is over, goes."""
    over = delete(Maintenance).where(Maintenance.ends_unix_ns <= now_unix_ns).returning(Maintenance.id)
    for id_ in session.scalars(over).all():
        notify(session, None, maintenance.KIND, {"id": id_})


def make_room(session: Session, instruction: Preempt, mine: ColumnElement[bool]) -> bool:
    """A job that runs makes room for another one, or as its devices are drained; whether it does. `mine`: the attempts
    that this server looks after: where one of another server makes room for the same job, none of these has to."""
    job, for_job = session.get_one(Job, instruction.job_id), instruction.for_job
    if job.state != State.RUNNING:
        return False
    if for_job is not None:
        elsewhere = select(Attempt.id).where(
            Attempt.state == State.PREEMPTING, Attempt.preempted_for == for_job, ~mine
        )
        other = session.get(Job, for_job)
        if other is None or other.state != State.QUEUED or session.scalar(elsewhere.limit(1)) is not None:
            return False
    changed = record.preempt(session, job, instruction.text, for_job)
    session.add(
        AuditEntry(
            at_unix_ns=time.time_ns(),
            who=WHO,
            action="preempt_job",
            target=f"jobs/{job.id}",
            status=200,
            details=None if for_job is None else {"for_job": for_job},
        )
    )
    return changed


def unreadable(session: Session, job_id: str, message: str) -> None:
    """A queued job that another version of this program stored, and this one cannot read, ends."""
    job = session.get_one(Job, job_id)
    if job.state == State.QUEUED:
        record.advance(session, job, None, Event.REFUSED, reason=Reason.LAUNCH_FAILED, message=message)


def launched(session: Session, attempt_id: int, handle: Handle) -> None:
    """What looks after the attempt is up: keep its handle, also where the job was cancelled meanwhile."""
    attempt = session.get_one(Attempt, attempt_id)
    attempt.handle = asdict(handle)
    if is_allowed(State(attempt.state), Event.LAUNCHED, table=ATTEMPT):
        record.advance(session, attempt.job, attempt, Event.LAUNCHED)


def interrupted(session: Session, attempt_id: int) -> None:
    """The attempt was not launched whole, and nothing of it runs: the job queues again, or ends where it was cancelled
    meanwhile or where this happened `INTERRUPTIONS` times."""
    attempt = session.get_one(Attempt, attempt_id)
    job = attempt.job
    reason = Reason.LAUNCH_INTERRUPTED
    if is_allowed(State(attempt.state), Event.INTERRUPTED, table=ATTEMPT):
        record.advance(session, job, attempt, Event.INTERRUPTED, reason=reason, message=reason.summary)
        times = sum(other.reason == reason for other in job.attempts)
        if times >= INTERRUPTIONS:
            message = f"{times} attempts were broken off before they were launched whole. Look into the server's log"
            record.advance(session, job, None, Event.REFUSED, reason=reason, message=message)
    else:
        record.advance(session, job, attempt, Event.ENDED)


def progress(session: Session, attempt_id: int, report: Running) -> None:
    """The attempt went on."""
    attempt = session.get_one(Attempt, attempt_id)
    _advance_all(session, attempt, events_of(State(attempt.state), report), report.reason, report.message)


def close(session: Session, attempt_id: int, end: Ended) -> None:
    """The attempt has ended; its job too, or it waits for another one."""
    attempt = session.get_one(Attempt, attempt_id)
    if attempt.state not in ACTIVE:
        return
    if end.reason == Reason.LAUNCH_INTERRUPTED:
        interrupted(session, attempt_id)
        return
    job, state = attempt.job, State(attempt.state)
    attempt.exit_code = end.exit_code
    again = None
    if job.state != State.STOPPING_CANCELLED:  # nobody cancelled it after its attempt had failed
        settled = state in STOPPING
        reason = (attempt.reason if settled else None) or end.reason
        message = (attempt.message if settled else None) or end.message
        again = retry.after(job, attempt, reason, message, end.ended_unix_ns)
    events = closing_events(state, end.status, again=again is not None)
    message = end.message
    if end.status == "preempted" and (other := session.get(Job, attempt.preempted_for or "")) is not None:
        message = f"{message}. It did so for {other.name!r} (priority {other.priority})"
    _advance_all(session, attempt, events, end.reason, message, again)


def _advance_all(
    session: Session,
    attempt: Attempt,
    events: tuple[Event, ...],
    reason: Reason | None,
    message: str | None,
    again: retry.Retry | None = None,
) -> None:
    for event in events:
        settles = event not in {Event.LAUNCHED, Event.BEGAN}
        record.advance(
            session,
            attempt.job,
            attempt,
            event,
            reason=reason if settles else None,
            message=message if settles else None,
            retry=again if event is Event.RETRY else None,
        )
