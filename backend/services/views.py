"""Rows of the database as the API shows them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.figures import rolled
from backend.figures.facts import known
from backend.lifecycle import State
from backend.schemas import jobs as schema
from backend.schemas.plans import PlanView
from backend.services import dropped, plans, speed_ups
from backend.services.losses import losses_of
from backend.services.progress import Progress, ProgressReader
from backend.services.remember import Remembered
from backend.services.stored import planned_of, source_name, spec_of
from backend.services.times import moment, moment_or_none
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.length import total_steps

PLANS_REMEMBERED = 256
SUMMARIES_REMEMBERED = 8_192
"""More than the thousands of jobs that somebody scrolls through: a row is about 2 kB."""
UNKNOWN = "?"
"""Stands for a name in the row of a job that cannot be read."""


class Views:
    """Builds what the API answers about jobs. Remembers what cannot change."""

    def __init__(self) -> None:
        self.progress = ProgressReader()
        self._plans: Remembered[PlanView] = Remembered(room=PLANS_REMEMBERED)
        self._summaries: Remembered[schema.JobSummary] = Remembered(room=SUMMARIES_REMEMBERED)

    def summary(self, session: Session, job: models.Job) -> schema.JobSummary:
        """One row of the list. All that it says goes with the revisions of the job and of its baseline."""
        baseline = session.get(models.Job, job.baseline_id) if job.baseline_id else None
        key = (job.id, job.revision, baseline.revision if baseline else None)
        return self._summaries.get(key, lambda: self._summary(session, job))

    def whole(self, session: Session, job: models.Job) -> schema.Job:
        """The job with its plan, attempts and history."""
        history = select(models.Transition).where(
            models.Transition.job_id == job.id, models.Transition.attempt_id.is_(None)
        )
        return schema.Job(
            **dict(self.summary(session, job)),
            spec=spec_of(job),
            plan=self.plan(job),
            attempts=[show_attempt(session, row) for row in job.attempts],
            history=[
                show_transition(row, None) for row in session.scalars(history.order_by(models.Transition.id))
            ],
        )

    def plan(self, job: models.Job) -> PlanView:
        """The plan that was made when the job was submitted."""
        return self._plans.get(job.id, lambda: plans.view(planned_of(job)))

    def of(self, session: Session, job: models.Job, attempt: models.Attempt | None = None) -> Progress:
        """The newest figures of that attempt, else of the job's latest one."""
        return self.progress.of(session, job, attempt or latest_attempt(session, job))

    def _summary(self, session: Session, job: models.Job) -> schema.JobSummary:
        attempt = latest_attempt(session, job)
        try:
            spec = spec_of(job)
        except UserError as error:
            return _unreadable(session, job, attempt, error)
        progress = self.progress.of(session, job, attempt)
        compared = speed_ups.of(session, job)
        steps = spec.training.steps
        if steps is None and (samples := _samples(session, job)):
            steps = total_steps(spec.training, samples)
        return schema.JobSummary(
            **_columns(session, job, attempt),
            message=job.message,
            strategy=spec.strategy.name,
            planned_by=_planned_by(spec),
            model=source_name(job.spec["model"]),
            dataset=source_name(job.spec["data"]),
            workers=spec.cluster.workers,
            global_batch=spec.training.global_batch,
            rate_bps=spec.network.rate_bps,
            fastest_bps=max(
                (bps for bps in spec.network.host_rates_bps if bps), default=spec.network.rate_bps
            ),
            hosts=spec.network.hosts,
            rehearsed=spec.rehearsed,
            slowed=spec.slowed,
            step=progress.done or None,
            steps=steps,
            loss=progress.loss,
            test_accuracy=progress.test_accuracy,
            accuracy_of=progress.accuracy_of,
            samples_per_s=progress.samples_per_s,
            iteration_ms=milliseconds(progress.iteration_ns),
            speed_up=compared.result.value if compared else None,
            speed_up_caveat=compared.result.caveat if compared else None,
        )


def _columns(session: Session, job: models.Job, attempt: models.Attempt | None) -> dict[str, Any]:
    """What a row of the list says without the job's specification."""
    tags = select(models.JobTag.tag).where(models.JobTag.job_id == job.id).order_by(models.JobTag.tag)
    return {
        "id": job.id,
        "name": job.name,
        "owner": job.owner,
        "state": job.state,
        "reason": job.reason,
        "priority": job.priority,
        "baseline_id": job.baseline_id,
        "created_at": moment(job.created_unix_ns),
        "retry_at": moment_or_none(job.retry_unix_ns),
        "started_at": moment_or_none(job.started_unix_ns),
        "ended_at": moment_or_none(job.ended_unix_ns),
        "revision": job.revision,
        "attempt": str(attempt.id) if attempt else None,
        "tags": list(session.scalars(tags)),
        "note": job.note,
    }


def _unreadable(
    session: Session, job: models.Job, attempt: models.Attempt | None, error: UserError
) -> schema.JobSummary:
    """The row of a job that another version stored: its columns, what is found of its specification, and why there is
    no more."""
    strategy = known(job.spec, "strategy.name", str) or UNKNOWN
    return schema.JobSummary(
        **_columns(session, job, attempt),
        message="; ".join(filter(None, (job.message, str(error)))),
        strategy=strategy,
        planned_by=strategy,
        model=source_name(known(job.spec, "model", dict) or {"name": UNKNOWN}),
        dataset=source_name(known(job.spec, "data", dict) or {"name": UNKNOWN}),
        workers=known(job.spec, "cluster.workers", int) or 0,
        global_batch=known(job.spec, "training.global_batch", int) or 0,
        rate_bps=None,
        fastest_bps=None,
        hosts=None,
        rehearsed=UNKNOWN if known(job.spec, "fidelity", str) == "rehearse" else None,
        slowed=UNKNOWN if known(job.spec, "faults.stragglers", list) else None,
        step=None,
        steps=None,
        loss=None,
        test_accuracy=None,
        accuracy_of=None,
        samples_per_s=None,
        iteration_ms=None,
        speed_up=None,
        speed_up_caveat=None,
    )


def latest_attempt(session: Session, job: models.Job) -> models.Attempt | None:
    """The attempt that the job's figures are of, unless another is asked for."""
    newest = (
        select(models.Attempt).where(models.Attempt.job_id == job.id).order_by(models.Attempt.number.desc())
    )
    return session.scalars(newest.limit(1)).first()


def attempt_of(session: Session, job: models.Job, number: int | None) -> models.Attempt | None:
    """The attempt with this number; without one the latest, None where there is none yet. Raises UserError for a number
    that the job does not have."""
    if number is None:
        return latest_attempt(session, job)
    wanted = select(models.Attempt).where(models.Attempt.job_id == job.id, models.Attempt.number == number)
    if (found := session.scalars(wanted).first()) is None:
        rule = f"no such attempt: the job has {len(job.attempts)}"
        raise UserError("attempt", number, rule, "Count from 1, or leave it out for the latest one")
    return found


def _samples(session: Session, job: models.Job) -> int | None:
    """Training samples of the job's data, out of a description that is too large to load for a row of a list."""
    samples = models.Job.description["samples"].as_integer()
    return session.scalar(select(samples).where(models.Job.id == job.id))


def milliseconds(ns: float | None) -> float | None:
    """The same in ms."""
    return None if ns is None else ns / 1e6


def show_attempt(session: Session, row: models.Attempt) -> schema.Attempt:
    """An attempt as the API shows it."""
    return schema.Attempt(
        id=str(row.id),
        number=row.number,
        state=row.state,
        reason=row.reason,
        message=row.message,
        parties=row.parties,
        devices=row.devices,
        device_models=row.device_models,
        exit_code=row.exit_code,
        sealed=row.sealed,
        # It may have ended otherwise before it could make room.
        preempted_for=row.preempted_for if row.state in {State.PREEMPTING, State.PREEMPTED} else None,
        resumed_step=rolled.resumed_step(session, row.id),
        started_at=moment_or_none(row.started_unix_ns),
        ended_at=moment_or_none(row.ended_unix_ns),
        dropped=dropped.read(session, row),
        lost=losses_of(session, row),
    )


def show_transition(row: models.Transition, number: int | None) -> schema.Transition:
    """A change of state of the job, or of its attempt of that number."""
    return schema.Transition(
        attempt=number,
        from_state=row.from_state,
        to_state=row.to_state,
        reason=row.reason,
        message=row.message,
        at=moment(row.at_unix_ns),
    )


def _planned_by(spec: JobSpec) -> str:
    many = len(spec.overrides)
    return spec.strategy.name + (f" + {many} override{'s' if many > 1 else ''}" if many else "")
