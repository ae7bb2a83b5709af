"""How far a job is and how fast it goes, from its last steps: what lists, headlines and notices show.

Reads a bounded window of every worker's newest step rows, whatever the job's length, and remembers the answer
until the job's revision changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job, Metric, StepRow
from backend.services.remember import Remembered
from engine.telemetry import definitions

WINDOW_STEPS = 1_000
"""Medians are over the newest this many steps of every worker."""
REMEMBERED = 4_096
ACCURACY = "test_accuracy"

_ROW = np.dtype([("step", "<i4"), ("start", "<i8"), ("end", "<i8"), ("samples", "<i8"), ("loss", "<f8"),
                 ("exposed", "<i8"), ("compute", "<i8"), ("input", "<i8")])  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A job's newest figures by `engine.telemetry.definitions`; None where not known yet."""

    done: int = 0
    """Steps that every worker finished."""
    window: int = 0
    """Steps that the medians are over."""
    loss: float | None = None
    """Of the last such step: the workers' losses weighted by their samples."""
    test_accuracy: float | None = None
    iteration_ns: float | None = None
    samples_per_s: float | None = None
    exposed_ns: float | None = None
    """Of the worker that waited longest, median over the window."""
    compute_ns: float | None = None
    input_ns: float | None = None


class ProgressReader:
    """Reads and remembers; safe to call from many threads."""

    def __init__(self) -> None:
        self._known: Remembered[Progress] = Remembered(room=REMEMBERED)

    def of(self, session: Session, job: Job, attempt: Attempt | None) -> Progress:
        """Progress of the job's latest attempt."""
        if attempt is None:
            return Progress()
        workers = job.spec["cluster"]["workers"]
        return self._known.get((attempt.id, job.revision), lambda: read(session, attempt.id, workers))


def read(session: Session, attempt_id: int, workers: int) -> Progress:
    """Progress from the database."""
    accuracy = session.scalars(
        select(Metric.value)
        .where(Metric.attempt_id == attempt_id, Metric.name == ACCURACY)
        .order_by(Metric.step.desc())
        .limit(1)
    ).first()
    rows = [_newest(session, attempt_id, worker) for worker in range(workers)]
    if not all(len(r) for r in rows):
        return Progress(test_accuracy=accuracy)
    last = min(int(r["step"].max()) for r in rows)
    warm = [r[r["step"] >= definitions.WARM_UP_STEPS] for r in rows]
    medians = [definitions.median_iteration_ns(r["step"], r["start"]) for r in rows]
    speeds = [definitions.worker_throughput(r["samples"], m) for r, m in zip(warm, medians, strict=True)]
    figures = Progress(
        done=last + 1,
        window=min(len(r) for r in warm),
        loss=_loss([r[r["step"] == last] for r in rows]),
        test_accuracy=accuracy,
        iteration_ns=definitions.job_iteration_ns(medians),
        samples_per_s=sum(s for s in speeds if s is not None) if all(speeds) else None,
    )
    if not all(len(r) for r in warm):
        return figures
    slowest = {name: max(float(np.median(r[name])) for r in warm) for name in ("exposed", "compute", "input")}
    return replace(
        figures, exposed_ns=slowest["exposed"], compute_ns=slowest["compute"], input_ns=slowest["input"]
    )


def _newest(session: Session, attempt_id: int, worker: int) -> np.ndarray:
    columns = (StepRow.step, StepRow.start_ns, StepRow.end_ns, StepRow.samples, StepRow.loss,
               StepRow.exposed_ns, StepRow.compute_ns, StepRow.input_ns)  # fmt: skip
    query = (
        select(*columns)
        .where(StepRow.attempt_id == attempt_id, StepRow.party == worker)
        .order_by(StepRow.step.desc())
        .limit(WINDOW_STEPS)
    )
    return np.array([tuple(row) for row in session.execute(query)], _ROW)  # NULL becomes NaN


def _loss(rows: list[np.ndarray]) -> float | None:
    last = np.concatenate(rows)
    weight = last["samples"].sum()
    loss = float((last["loss"] * last["samples"]).sum() / weight) if weight else float("nan")
    return loss if np.isfinite(loss) else None
