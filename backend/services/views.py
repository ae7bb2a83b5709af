"""Rows of the database as the API shows them."""

from __future__ import annotations

from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.figures import speed
from backend.figures.source import Source
from backend.schemas import jobs as schema
from backend.schemas.plans import PlanView
from backend.services import dropped, plans
from backend.services.progress import Progress, ProgressReader
from backend.services.remember import Remembered
from backend.services.stored import planned_of, source_name, spec_of
from backend.services.times import moment, moment_or_none
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.length import total_steps
from engine.telemetry.definitions import SpeedUp

PLANS_REMEMBERED = 256
SUMMARIES_REMEMBERED = 4_096


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
        attempt = latest_attempt(session, job)
        return schema.Job(
            **dict(self.summary(session, job)),
            spec=spec_of(job),
            plan=self.plan(job),
            attempts=[show_attempt(row) for row in job.attempts],
            history=[
                show_transition(row, None) for row in session.scalars(history.order_by(models.Transition.id))
            ],
            dropped=dropped.read(session, attempt) if attempt else [],
        )

    def plan(self, job: models.Job) -> PlanView:
        """The plan that was made when the job was submitted."""
        return self._plans.get(job.id, lambda: plans.view(planned_of(job)))

    def speed_up(
        self, session: Session, job: models.Job, baseline_id: str | None = None, *, caveats: bool = True
    ) -> tuple[models.Job, SpeedUp] | None:
        """The baseline (the job's own, unless another is given) and the comparison with it; None without
        one."""
        chosen = baseline_id or job.baseline_id
        baseline = session.get(models.Job, chosen) if chosen else None
        if baseline is None:
            return None
        here, there = Source(session, job.id), Source(session, baseline.id)
        alone = None if caveats else True  # looked up over all jobs: too slow for every row of a list
        ours, theirs = (self.of(session, each).samples_per_s for each in (job, baseline))
        return baseline, speed.compare(here, there, ours, theirs, alone=alone)

    def of(self, session: Session, job: models.Job) -> Progress:
        """The newest figures of the job's latest attempt."""
        return self.progress.of(session, job, latest_attempt(session, job))

    def _summary(self, session: Session, job: models.Job) -> schema.JobSummary:
        attempt = latest_attempt(session, job)
        progress = self.progress.of(session, job, attempt)
        compared = self.speed_up(session, job, caveats=False)
        spec = spec_of(job)
        steps = spec.training.steps
        if steps is None and (samples := _samples(session, job)):
            steps = total_steps(spec.training, samples)
        return schema.JobSummary(
            id=job.id,
            name=job.name,
            state=cast(schema.State, job.state),
            reason=job.reason,
            message=job.message,
            strategy=spec.strategy.name,
            planned_by=_planned_by(spec),
            model=source_name(job.spec["model"]),
            dataset=source_name(job.spec["data"]),
            workers=spec.cluster.workers,
            global_batch=spec.training.global_batch,
            rate_bps=spec.network.rate_bps,
            hosts=spec.network.hosts,
            rehearsed=spec.rehearsed,
            priority=job.priority,
            baseline_id=job.baseline_id,
            created_at=moment(job.created_unix_ns),
            retry_at=moment_or_none(job.retry_unix_ns),
            started_at=moment_or_none(job.started_unix_ns),
            ended_at=moment_or_none(job.ended_unix_ns),
            step=progress.done or None,
            steps=steps,
            loss=progress.loss,
            test_accuracy=progress.test_accuracy,
            samples_per_s=progress.samples_per_s,
            iteration_ms=milliseconds(progress.iteration_ns),
            speed_up=compared[1].value if compared else None,
            revision=job.revision,
            attempt=str(attempt.id) if attempt else None,
        )


def latest_attempt(session: Session, job: models.Job) -> models.Attempt | None:
    """The attempt that the job's figures are of."""
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


def show_attempt(row: models.Attempt) -> schema.Attempt:
    """An attempt as the API shows it."""
    return schema.Attempt(
        id=str(row.id),
        number=row.number,
        state=row.state,
        reason=row.reason,
        message=row.message,
        parties=row.parties,
        devices=row.devices,
        exit_code=row.exit_code,
        sealed=row.sealed,
        started_at=moment_or_none(row.started_unix_ns),
        ended_at=moment_or_none(row.ended_unix_ns),
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
