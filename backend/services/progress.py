"""How far a job is and how fast it goes, from its last steps: what lists, headlines and notices show.

Reads a bounded window of every worker's newest step rows, whatever the job's length, and remembers the answer
until the job's revision changes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job, Metric
from backend.figures import rolled, speed
from backend.figures.facts import period_of
from backend.lifecycle import State
from backend.services.remember import Remembered
from engine.telemetry import measured
from engine.telemetry.definitions import WARM_UP_STEPS

REMEMBERED = 8_192
ACCURACY = "test_accuracy"
APART = 1.05
"""See `Progress.apart`."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A job's newest figures by `engine.telemetry.definitions`; None where not known yet."""

    done: int = 0
    """Steps that every worker finished that is there."""
    window: int = 0
    """Steps that the medians are over."""
    loss: float | None = None
    """Of the last such step: the workers' losses weighted by their samples."""
    test_accuracy: float | None = None
    accuracy_of: str | None = None
    """Of which model that is, where workers drift (`engine/telemetry/measured.py`)."""
    iteration_ns: float | None = None
    samples_per_s: float | None = None
    exposed_ns: float | None = None
    """Median of the worker that has most; so is the next."""
    compute_ns: float | None = None
    exposed_rank: int | None = None
    """Of that worker; so is the next."""
    compute_rank: int | None = None
    inputs: tuple[speed.InputWait, ...] = ()
    """How long each worker waits for its data."""
    longest_input: speed.InputWait | None = None
    """Of the worker that waits longest."""

    @property
    def apart(self) -> bool:
        """Whether one worker computes longest and another one waits longest, so that the two do not add up to any
        worker's iteration; where they nearly do, that is chance."""
        whole = (self.exposed_ns or 0.0) + (self.compute_ns or 0.0)
        return self.exposed_rank != self.compute_rank and whole > APART * (self.iteration_ns or math.inf)


class ProgressReader:
    """Reads and remembers; safe to call from many threads."""

    def __init__(self) -> None:
        self._known: Remembered[Progress] = Remembered(room=REMEMBERED)
        self._periods: Remembered[int] = Remembered(room=REMEMBERED)  # a job's plan never changes
        self._furthest: dict[int, int] = {}
        """By attempt, the most steps that were ever done; the newest last."""
        self._lock = threading.Lock()

    def of(self, session: Session, job: Job, attempt: Attempt | None) -> Progress:
        """Progress of one attempt of the job."""
        if attempt is None:
            return Progress()
        workers = job.spec["cluster"]["workers"]
        key = (attempt.id, job.revision)
        period = self._periods.get(job.id, lambda: period_of(session, job.id))
        return self._known.get(
            key,
            lambda: self._onward(
                attempt.id,
                read(session, attempt.id, workers, period),
                lambda: self._begun(session, job, attempt),
            ),
        )

    def _begun(self, session: Session, job: Job, attempt: Attempt) -> int:
        """How many steps had been made when the attempt began: those of the checkpoint that it goes on from. Until it
        has said so, where the one before it ended with a checkpoint, all of that one's."""
        if (said := rolled.resumed_step(session, attempt.id)) is not None:
            return said
        earlier = select(Attempt).where(Attempt.job_id == job.id, Attempt.number < attempt.number)
        before = session.scalars(earlier.order_by(Attempt.number.desc()).limit(1)).first()
        if before is None or before.state != State.PREEMPTED:
            return 0
        return self.of(session, job, before).done

    def _onward(self, attempt_id: int, found: Progress, begun: Callable[[], int]) -> Progress:
        """The same, its steps never fewer than before: a worker that has joined again is behind the others until its
        new steps arrive, and what they had finished without it is done all the same. Before there are any it is
        `begun()`."""
        with self._lock:
            done = max(found.done, self._furthest.pop(attempt_id, 0))
            self._furthest[attempt_id] = done
            if len(self._furthest) > REMEMBERED:
                del self._furthest[next(iter(self._furthest))]
        return replace(found, done=done or begun())


def read(session: Session, attempt_id: int, workers: int, period: int) -> Progress:
    """Progress from the database. `period`: see `facts.period_of`."""
    accuracy, of = _accuracy(session, attempt_id)
    end = rolled.last_step(session, attempt_id)
    rows = rolled.step_rows(session, attempt_id, max(0, end - speed.window_steps(period)), end)
    rows = rows[rows["party"] < workers]
    away = rolled.absent(session, attempt_id, workers)
    there = [rank for rank in range(workers) if not (rank in away and away[rank][-1].to_ns is None)]
    lasts = [rows["step"][rows["party"] == worker].max(initial=-1) for worker in there]
    last = int(min(lasts, default=-1))
    if last < 0:
        return Progress(test_accuracy=accuracy, accuracy_of=of)
    warm = rows[rows["step"] >= WARM_UP_STEPS]
    found = speed.speed_of(warm, workers, period, WARM_UP_STEPS, last, away)
    return Progress(
        done=last + 1,
        window=len(np.unique(warm["step"])),
        loss=_loss(rows[rows["step"] == last]),
        test_accuracy=accuracy,
        accuracy_of=of,
        iteration_ns=found.iteration_ns,
        samples_per_s=found.samples_per_s,
        exposed_ns=found.exposed_ns,
        compute_ns=found.compute_ns,
        exposed_rank=found.exposed_rank,
        compute_rank=found.compute_rank,
        inputs=found.inputs,
        longest_input=found.longest_input,
    )


def _accuracy(session: Session, attempt_id: int) -> tuple[float | None, str | None]:
    """The newest, and of which model it is."""
    ours = select(Metric.step, Metric.value).where(Metric.attempt_id == attempt_id, Metric.name == ACCURACY)
    newest = session.execute(ours.order_by(Metric.step.desc()).limit(1)).first()
    if newest is None:
        return None, None
    beside = select(Metric.name, Metric.value).where(
        Metric.attempt_id == attempt_id, Metric.step == newest.step, Metric.name.in_(measured.NAMES)
    )
    found = {name: value for name, value in session.execute(beside) if value is not None}
    return newest.value, measured.words(newest.step, found)


def _loss(rows: np.ndarray) -> float | None:
    rows = rows[rows["samples"] > 0]  # who has none has no loss
    weight = rows["samples"].sum()
    loss = float((rows["loss"] * rows["samples"]).sum() / weight) if weight else float("nan")
    return loss if np.isfinite(loss) else None
