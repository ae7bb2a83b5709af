"""Speed-up of a job against its baseline, by `engine.telemetry.definitions`."""

from __future__ import annotations

import json

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db.models import Job
from backend.services.progress import Progress
from backend.services.stored import source_name, spec_of
from engine.plan.serde import to_plain
from engine.telemetry import definitions


def compare(
    session: Session, job: Job, ours: Progress, baseline: Job, theirs: Progress
) -> definitions.SpeedUp:
    """This job against its baseline: weak scaling where only the batches per worker are equal, else
    strong."""
    here, there = _conditions(session, job, ours), _conditions(session, baseline, theirs)
    per_worker = here.global_batch * there.workers == there.global_batch * here.workers
    weak = here.global_batch != there.global_batch and per_worker
    return definitions.speed_up(here, there, "weak" if weak else "strong")


def ran_alone(session: Session, job: Job) -> bool:
    """Whether no other job was running while this one did."""
    if job.started_unix_ns is None:
        return True
    meanwhile = select(func.count()).where(
        Job.id != job.id,
        Job.started_unix_ns.is_not(None),
        Job.ended_unix_ns.is_(None) | (Job.ended_unix_ns > job.started_unix_ns),
    )
    if job.ended_unix_ns is not None:
        meanwhile = meanwhile.where(Job.started_unix_ns < job.ended_unix_ns)
    return session.scalar(meanwhile) == 0


def _conditions(session: Session, job: Job, progress: Progress) -> definitions.RunConditions:
    spec = spec_of(job)
    work = [spec.model, spec.data]
    return definitions.RunConditions(
        samples_per_s=progress.samples_per_s,
        workload=" on ".join(_describe(source_name(to_plain(source)), source.options) for source in work),
        global_batch=spec.training.global_batch,
        workers=spec.cluster.workers,
        threads=spec.cluster.threads,
        device=spec.cluster.device,
        alone=ran_alone(session, job),
    )


def _describe(name: str, options: dict[str, object]) -> str:
    return f"{name} {json.dumps(options, sort_keys=True)}" if options else name
