"""What webhooks are to be told: a message for each, written in the transaction that it tells of, so that none is lost
where a server ends in between, and none is written of what did not happen."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import notify
from backend.db.models import Delivery, Job, Race, Webhook
from backend.lifecycle import State, said

JOB_ENDED, JOB_FAILED, RACE_ENDED, TEST = "job.ended", "job.failed", "race.ended", "test"
EVENTS = {
    JOB_ENDED: "a job has ended, however that was",
    JOB_FAILED: "a job has failed",
    RACE_ENDED: "all jobs of a race have ended, and it has its verdict",
}
"""What a webhook can be told, and when."""
KIND = "webhook"
"""Of the notice that there is something to send."""


def job_ended(session: Session, job: Job) -> None:
    """The job is in one of the states of its end. Who asked for both kinds of its end is told once."""
    failed = job.state == State.FAILED
    text = f"Job {job.name} {said(job.state)}" + (f": {job.message}" if failed and job.message else "")
    about = {
        "id": job.id,
        "name": job.name,
        "owner": job.owner,
        "state": job.state,
        "reason": job.reason,
        "message": job.message,
        "attempts": len(job.attempts),
        "path": f"/jobs/{job.id}",
    }
    events = {JOB_ENDED, JOB_FAILED} if failed else {JOB_ENDED}
    _tell(session, JOB_FAILED if failed else JOB_ENDED, events, job.owner, {"text": text, "job": about})


def race_ended(session: Session, race: Race) -> None:
    """The race has ended: its page and `GET /races/<id>` have the verdict."""
    about = {
        "id": race.id,
        "name": race.name,
        "owner": race.owner,
        "state": race.state,
        "path": f"/races/{race.id}",
    }
    _tell(
        session,
        RACE_ENDED,
        {RACE_ENDED},
        race.owner,
        {"text": f"Race {race.name} {race.state}", "race": about},
    )


def test(session: Session, hook: Webhook) -> None:
    """Somebody wants to see whether messages arrive."""
    _add(session, hook, TEST, {"text": f"A test of the webhook {hook.name}"})


def _tell(session: Session, event: str, wanted: set[str], owner: str | None, content: dict[str, Any]) -> None:
    for hook in session.scalars(select(Webhook).order_by(Webhook.id)):
        if wanted & set(hook.events) and (hook.everybodys or hook.owner == owner):
            _add(session, hook, event, content)


def _add(session: Session, hook: Webhook, event: str, content: dict[str, Any]) -> None:
    now = time.time_ns()
    row = Delivery(
        webhook_id=hook.id, event=event, body={"event": event, **content}, at_unix_ns=now, next_unix_ns=now
    )
    session.add(row)
    notify(session, None, KIND, {})
