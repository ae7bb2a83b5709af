"""What figures and API read of workers that drift: how stale their contributions were, and who was ahead of whom. Of a
long run they read as many rows as they can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db.models import Job, StalenessCount, StalenessWindow, StepRow
from backend.figures.rolled import fetch, fetch_whole, last_step
from engine.axes.consistency import CONSISTENCY
from engine.telemetry.definitions import mean_staleness, steps_ahead
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS, STALENESS_LEVEL

MOST_SAMPLED = 1_000
"""Of each worker's steps; where it has more, those between two are taken to be equally long."""
SINGLE = 8
"""Values of staleness that have a class of their own; above, classes are twice as wide as the one before."""
COUNT_ROW = np.dtype([("of", "<i4"), ("staleness", "<i4"), ("count", "<i8")])
_WINDOW_ROW = np.dtype([("bin", "<i8"), ("worker", "<i4"), ("staleness", "<i4"), ("count", "<i8")])
_CLOCK_ROW = np.dtype([("party", "<i4"), ("step", "<i8"), ("end", "<i8")])


def drifts(session: Session, job_id: str) -> bool:
    """Whether a job's workers do not wait for one another in every step, as its plan says. Read out of a plan that may
    be large, or of another version."""
    mode = session.scalar(select(Job.plan[("consistency", "mode")].as_string()).where(Job.id == job_id))
    return mode in CONSISTENCY.names and "drifts" in CONSISTENCY[mode].traits


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Contributions by how stale they were."""

    staleness: np.ndarray
    """(n) ascending, without gaps of what occurred."""
    count: np.ndarray
    """(n) contributions that were so stale."""

    @property
    def contributions(self) -> int:
        return int(self.count.sum())

    @property
    def mean(self) -> float | None:
        return mean_staleness(self.staleness, self.count)

    @property
    def most(self) -> int | None:
        return int(self.staleness[-1]) if len(self.staleness) else None

    def within(self, classes: Sequence[tuple[int, int]]) -> np.ndarray:
        """(k) contributions of each class, from and to included."""
        lows = np.array([low for low, _ in classes])
        found = np.zeros(len(classes), np.int64)
        np.add.at(found, np.searchsorted(lows, self.staleness, side="right") - 1, self.count)
        return found


def classes(most: int) -> list[tuple[int, int]]:
    """Classes of staleness from 0 to `most`, each with its lowest and its highest value: 0, 1, ..., 7, 8 to 15, ..."""
    found = [(value, value) for value in range(min(most + 1, SINGLE))]
    while found[-1][1] < most:
        low = found[-1][1] + 1
        found.append((low, 2 * low - 1))
    return found


def by_worker(session: Session, attempt: int, workers: int) -> dict[int, Histogram]:
    """Of every worker's contributions to all layers."""
    return _histograms(session, attempt, StalenessCount.worker, workers)


def by_layer(session: Session, attempt: int, layers: int) -> dict[int, Histogram]:
    """Of all workers' contributions to each layer; of a bucket, under its first layer."""
    return _histograms(session, attempt, StalenessCount.layer, layers)


def together(histograms: Sequence[Histogram]) -> Histogram:
    """All of them as one."""
    staleness = np.concatenate([np.empty(0, np.int32), *(each.staleness for each in histograms)])
    count = np.concatenate([np.empty(0, np.int64), *(each.count for each in histograms)])
    values, where = np.unique(staleness, return_inverse=True)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, where, count)
    return Histogram(staleness=values, count=sums)


def _histograms(session: Session, attempt: int, of: Any, below: int) -> dict[int, Histogram]:
    query = (
        select(of, StalenessCount.staleness, func.sum(StalenessCount.count))
        .where(StalenessCount.attempt_id == attempt, of >= 0, of < below)
        .group_by(of, StalenessCount.staleness)
        .order_by(of, StalenessCount.staleness)
    )
    rows = fetch(session, query, COUNT_ROW)
    return {
        int(one): Histogram(staleness=rows["staleness"][which], count=rows["count"][which])
        for one in np.unique(rows["of"])
        for which in [rows["of"] == one]
    }


@dataclass(frozen=True, kw_only=True)
class Course:
    """How workers drifted over time."""

    edges_ns: np.ndarray
    """(n + 1) of the windows, on the attempt's clock."""
    mean: np.ndarray
    """(workers, n) staleness of a worker's contributions in each window; NaN: it had none."""
    most: np.ndarray
    """(n) the highest staleness of anybody's; -1: nobody had any."""
    at_ns: np.ndarray
    """(m) moments at which steps were counted: the end of each window, and as many within each as there is room for."""
    steps: np.ndarray
    """(workers, m) steps that each had ended then."""
    peaks_ns: np.ndarray
    """(k) moments at which some worker was ahead by most, however wide the windows are."""
    peak_steps: np.ndarray
    """(workers, k) steps that each had ended then."""

    @property
    def moments_ns(self) -> np.ndarray:
        """(m + k) All moments at which steps were counted, in order."""
        return np.sort(np.concatenate([self.at_ns, self.peaks_ns]))

    @property
    def ahead(self) -> np.ndarray:
        """(workers, m + k) steps ahead of the slowest at these."""
        order = np.argsort(np.concatenate([self.at_ns, self.peaks_ns]))
        return steps_ahead(np.concatenate([self.steps, self.peak_steps], axis=1)[:, order])

    @property
    def most_ahead(self) -> np.ndarray:
        """(workers) The most steps that each has been ahead of the slowest."""
        return self.ahead.max(axis=1, initial=0)

    @property
    def steps_by_window(self) -> np.ndarray:
        """(workers, n) steps that each had ended at the end of each window."""
        every = max(len(self.at_ns) // max(len(self.most), 1), 1)
        return self.steps[:, every - 1 :: every]


def course(session: Session, attempt: int, workers: int, most: int) -> Course:
    """In at most `most` windows, as narrow as that allows."""
    first, last = (_end_bin(session, attempt, end) for end in (func.min, func.max))
    if first is None or last is None:
        edges = np.zeros(1, np.int64)
        nothing = np.zeros((workers, 0))
        none = np.zeros(0, np.int64)
        return Course(
            edges_ns=edges,
            mean=nothing,
            most=none,
            at_ns=none,
            steps=nothing.astype(np.int64),
            peaks_ns=none,
            peak_steps=nothing.astype(np.int64),
        )
    level = STALENESS_LEVEL
    while level < LEVELS - 1 and last - first + 1 > most * LEVEL_FACTOR:
        level, first, last = level + 1, first // LEVEL_FACTOR, last // LEVEL_FACTOR
    stride = -(-(last - first + 1) // most)
    count = -(-(last - first + 1) // stride)
    row = StalenessWindow
    query = select(row.bin, row.worker, row.staleness, row.count).where(
        row.attempt_id == attempt, row.level == level, row.worker >= 0, row.worker < workers
    )
    rows = fetch_whole(session, query, _WINDOW_ROW)
    at = (rows["worker"], (rows["bin"] - first) // stride)
    total, weighted = np.zeros((workers, count)), np.zeros((workers, count))
    np.add.at(total, at, rows["count"])
    np.add.at(weighted, at, rows["count"] * rows["staleness"].astype(np.float64))
    highest = np.full(count, -1, np.int64)
    np.maximum.at(highest, at[1], rows["staleness"])
    wide = stride * BIN_NS * LEVEL_FACTOR**level
    edges = first * (wide // stride) + np.arange(count + 1, dtype=np.int64) * wide
    within = most // count
    peaks = _peaks(session, attempt, workers)
    moments = edges[0] + np.arange(1, count * within + 1, dtype=np.int64) * wide // within
    return Course(
        edges_ns=edges,
        mean=np.divide(weighted, total, out=np.full_like(total, np.nan), where=total > 0),
        most=highest,
        at_ns=moments,
        steps=ended(session, attempt, workers, moments),
        peaks_ns=peaks,
        peak_steps=ended(session, attempt, workers, peaks),
    )


def ended(session: Session, attempt: int, workers: int, at_ns: np.ndarray) -> np.ndarray:
    """(workers, n) steps that each worker had ended at these moments (n). Of a long run, one step in so many is read,
    and each worker's last one."""
    last = last_step(session, attempt)
    stride = -(-(last + 1) // MOST_SAMPLED)
    found = np.zeros((workers, len(at_ns)), np.int64)
    if last < 0:
        return found
    columns = select(StepRow.party, StepRow.step, StepRow.end_ns).where(StepRow.attempt_id == attempt)
    chosen = columns.where(StepRow.step.in_(range(stride - 1, last + 1, stride))) if stride > 1 else columns
    rows = fetch(session, chosen, _CLOCK_ROW)
    for worker in range(workers):
        own = rows[rows["party"] == worker]
        newest = columns.where(StepRow.party == worker).order_by(StepRow.step.desc()).limit(1)
        own = np.concatenate([own, fetch(session, newest, _CLOCK_ROW)])
        if not len(own):
            continue
        own = own[np.argsort(own["step"], kind="stable")]
        steps, ends = own["step"] + 1, np.maximum.accumulate(own["end"])
        if stride == 1:
            reached = np.searchsorted(ends, at_ns, side="right")
            found[worker] = np.where(reached > 0, steps[np.maximum(reached - 1, 0)], 0)
        else:
            began = select(StepRow.start_ns).where(StepRow.attempt_id == attempt, StepRow.party == worker)
            start = session.scalar(began.order_by(StepRow.step).limit(1)) or 0
            found[worker] = np.interp(at_ns, [start, *ends.tolist()], [0, *steps.tolist()], left=0)
    return found


def _peaks(session: Session, attempt: int, workers: int) -> np.ndarray:
    """As `Course.peaks_ns`: a lead grows when a step ends. Of a long run it is looked at the ends of one step in so
    many, and at the last one's."""
    stride = -(-(last_step(session, attempt) + 1) // MOST_SAMPLED)
    own = StepRow.attempt_id == attempt
    ends = select(StepRow.end_ns).where(own, StepRow.step % max(stride, 1) == 0)
    now = session.scalar(select(func.max(StepRow.end_ns)).where(own)) or 0
    moments = np.array(sorted({*session.scalars(ends), now}), np.int64)
    ahead = steps_ahead(ended(session, attempt, workers, moments))
    return moments[np.unique(ahead.argmax(axis=1))]


def _end_bin(session: Session, attempt: int, end: Any) -> int | None:
    """The first or the last window at the finest level; None where there is none."""
    row = StalenessWindow
    query = select(end(row.bin)).where(row.attempt_id == attempt, row.level == STALENESS_LEVEL)
    return session.scalar(query)
