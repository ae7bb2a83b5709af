"""What to change in a job that waits for its data more than for anything else."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.figures.processors import Processors
from backend.services.progress import Progress
from engine.axes.inputs import INPUT
from engine.plan.inputs import MOST_PROCESSES, Input
from engine.plan.job import JobSpec
from engine.telemetry.definitions import exposed_share
from engine.telemetry.limits import PROCESSORS, input_dominates


def of(
    session: Session,
    job: models.Job,
    spec: JobSpec,
    progress: Progress,
    machine: Processors | None,
    device: str | None,
) -> str | None:
    """For a job with these figures, whose workers have such a device; None where its input does not limit it, or nobody
    knows yet."""
    waits = progress.longest_input
    if waits is None or waits.share is None or progress.iteration_ns is None or spec.rehearsed:
        return None
    exposed = exposed_share(progress.exposed_ns or 0.0, progress.iteration_ns)
    if not input_dominates(waits.share, exposed):
        return None
    who = "The worker waits" if len(progress.inputs) == 1 else f"Worker {waits.rank} waits"
    what = remedy(
        spec.input,
        cuda=device == "cuda",
        staged=_staged(session, job),
        full=machine is not None and machine.busy >= PROCESSORS,
    )
    return f"{who} {100 * waits.share:.0f} % of its step for data. {what}"


def remedy(given: Input, *, cuda: bool, staged: bool, full: bool) -> str:
    """What to do first. `cuda`: CUDA devices train; `staged`: the data have what a device can do; `full`: the machine's
    processors are busy nearly all the time."""
    on_device, count = "staged" in INPUT[given.where].traits, given.process_count
    more = min(2 * count, MOST_PROCESSES)
    ways = (
        (
            on_device and not cuda,
            "Do not let the thread that trains transform them: set input.where to processes, or to cpu",
        ),
        (on_device and not full, "Prepare them in processes: set input.where to processes"),
        (
            given.prefetch == 0 and not count,
            "Prepare them ahead of the step: set input.prefetch to 1 or more",
        ),
        (
            not on_device and cuda and staged and (full or count > 0),
            "Let the device transform them, so that the host only reads and decodes: set input.where to device",
        ),
        (
            full,
            "The machine's processors are busy, so that more processes would not help: store the data smaller or "
            "ready-made, or end other programs",
        ),
        (not count, "Prepare them in processes of their own: set input.where to processes"),
        (more > count, f"Prepare them in more processes: set input.processes to {more}, in place of {count}"),
    )
    return next((text for holds, text in ways if holds), "Store them smaller or ready-made")


def _staged(session: Session, job: models.Job) -> bool:
    """By the model's description, which may be too large to load for that."""
    told = models.Job.description["staged"].as_boolean()
    return bool(session.scalar(select(told).where(models.Job.id == job.id)))
