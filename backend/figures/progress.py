"""How a run went, step by step over all workers. Steps that every worker has ended do not change any more: they are
read from the database once, so that looking at a long run again costs as much as its newest steps."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from backend.db.models import StepRow
from backend.figures.rolled import fetch

MAX_BYTES = 64 * 2**20
STEP = np.dtype(
    [
        ("step", "<i4"),
        ("end", "<i8"),
        ("parties", "<i4"),
        ("samples", "<f8"),
        ("loss", "<f8"),
        ("iteration", "<f8"),
    ]
)
"""When the last worker ended it, how many did, their samples, their mean loss by samples, and the slowest one's
iteration time (ns); NaN where not known."""
PROGRESS_ROW = np.dtype(
    [
        ("step", "<i4"),
        ("end", "<i8"),
        *(
            (name, "<f8")
            for name in (
                "loss",
                "loss_min",
                "loss_max",
                "samples_per_s",
                "iteration",
                "iteration_min",
                "iteration_max",
            )
        ),
    ]
)
"""A group of steps: its last step and end, mean and extremes of loss and iteration time (ns, the slowest
worker's), samples per second over all workers; NaN where not known."""


class StepCache:
    """STEP rows of attempts, least recently used first out. Any thread may call it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, int], np.ndarray] = OrderedDict()
        """By job and attempt: the steps that every worker has ended, but for the last one of them."""
        self._lock = threading.Lock()  # not held while rows are read

    def steps(self, session: Session, job_id: str, attempt: int, workers: int) -> np.ndarray:
        """Every step of the attempt so far, by step."""
        key = (job_id, attempt)
        with self._lock:
            kept = self._kept.get(key, np.empty(0, STEP))
        first = int(kept["step"][-1]) + 1 if len(kept) else 0
        rows = np.concatenate([kept, _read(session, attempt, first)])
        # The next step's beginning ends an iteration: the last whole step's is not known yet.
        partial = np.flatnonzero(rows["parties"] < workers)
        whole = rows[: max(int(partial[0] if len(partial) else len(rows)) - 1, 0)]
        self._keep(key, whole)
        return rows

    def _keep(self, key: tuple[str, int], rows: np.ndarray) -> None:
        with self._lock:
            before = self._kept.get(key, np.empty(0, STEP))
            if len(rows) >= len(before):
                self._kept[key] = rows
                self._bytes += rows.nbytes - before.nbytes
            self._kept.move_to_end(key)
            while self._bytes > self._max_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes


def grouped(steps: np.ndarray, points: int) -> np.ndarray:
    """PROGRESS_ROW of STEP rows in at most `points` groups of equally many steps."""
    if not len(steps):
        return np.empty(0, PROGRESS_ROW)
    stride = max(1, -(-(int(steps["step"][-1]) + 1) // points))
    starts = np.flatnonzero(np.diff(steps["step"] // stride, prepend=-1))
    found = np.empty(len(starts), PROGRESS_ROW)
    found["step"] = np.maximum.reduceat(steps["step"], starts)
    found["end"] = np.maximum.reduceat(steps["end"], starts)
    for name in ("loss", "iteration"):
        known = ~np.isnan(steps[name])
        total = np.add.reduceat(np.where(known, steps[name], 0), starts)
        found[name] = _share(total, np.add.reduceat(known, starts, dtype=np.int64))
        found[f"{name}_min"] = np.fmin.reduceat(steps[name], starts)
        found[f"{name}_max"] = np.fmax.reduceat(steps[name], starts)
    timed = np.where(np.isnan(steps["iteration"]), 0, steps["samples"])
    time = np.add.reduceat(np.nan_to_num(steps["iteration"]), starts)
    found["samples_per_s"] = _share(1e9 * np.add.reduceat(timed, starts), time)
    return found


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def _read(session: Session, attempt: int, first: int) -> np.ndarray:
    """STEP rows of the steps from `first` on."""
    steps = (
        select(
            StepRow.step,
            StepRow.start_ns,
            StepRow.end_ns,
            StepRow.samples,
            StepRow.loss,
            *(
                func.lead(column).over(partition_by=StepRow.party, order_by=StepRow.step).label(name)
                for name, column in (("next_ns", StepRow.start_ns), ("next_step", StepRow.step))
            ),
        )
        .where(StepRow.attempt_id == attempt, StepRow.step >= first)
        .subquery()
    )
    of = steps.c
    weight = case((of.loss.is_not(None), of.samples))
    query = select(
        of.step,
        func.max(of.end_ns),
        func.count(),
        func.sum(of.samples),
        func.sum(of.loss * of.samples) / func.nullif(func.sum(weight), 0),
        func.max(case((of.next_step == of.step + 1, of.next_ns - of.start_ns))),
    )
    return fetch(session, query.group_by(of.step).order_by(of.step), STEP)
