"""Series of a job over its steps, thinned so that no spike is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db.models import Metric
from backend.figures.source import Source
from backend.schemas.telemetry import Point
from engine.errors import UnknownNameError

MAX_POINTS = 2_000
PER_STRETCH = 4
"""First, smallest, largest and last of every stretch are kept."""
OF_STEPS = ("loss", "throughput", "iteration_ms", "exposed_ms")
SPEED_UP = "speed_up"
"""Over the job's baseline, as it was stored."""


def thin(value: np.ndarray, limit: int = MAX_POINTS) -> np.ndarray:
    """Indices of at most `limit` points of a series (n): of every stretch of equal length the first, the
    smallest, the largest and the last. NaN is neither smallest nor largest."""
    count = len(value)
    if count <= limit:
        return np.arange(count)
    edges = np.linspace(0, count, limit // PER_STRETCH + 1).astype(int)
    kept = set(edges[:-1]) | set(edges[1:] - 1)
    for start, stop in pairwise(edges):
        known = start + np.flatnonzero(~np.isnan(value[start:stop]))
        if len(known):
            kept |= {known[value[known].argmin()], known[value[known].argmax()]}
    return np.array(sorted(kept))


def read(
    session: Session, source: Source, name: str | None, first: int = 0, last: int | None = None
) -> dict[str, list[Point]]:
    """Every series, or the one called `name`, over steps `first` to `last`. Raises UnknownNameError listing the known
    ones."""
    attempt_id = source.attempt
    measured = _measured(session, attempt_id, name, first, last)
    if name in (None, SPEED_UP) and len((faster := _speed_up(source, first, last))[0]):
        measured[SPEED_UP] = faster
    if name is not None and name not in {*OF_STEPS, *measured, *names(session, source)}:
        raise UnknownNameError("name", name, "series", {*OF_STEPS, *names(session, source)})
    wanted = OF_STEPS if name is None else {name} & set(OF_STEPS)
    found = {**(_of_steps(source, first, last) if wanted else {}), **measured}
    return {key: _points(*columns) for key, columns in found.items() if name in (None, key)}


Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""step, value and time (ns), each (n)."""


def _of_steps(source: Source, first: int, last: int | None) -> dict[str, Columns]:
    rows = source.step_rows(first, last)
    by_worker = [rows[rows["party"] == worker] for worker in range(source.job.workers)]
    steps = by_worker[0]["step"]
    for own in by_worker[1:]:
        steps = np.intersect1d(steps, own["step"])
    # (workers, steps): only steps that every worker finished.
    table = np.stack([own[np.isin(own["step"], steps)] for own in by_worker])
    time = table["end"].max(0) if len(steps) else steps
    samples = table["samples"].sum(0)
    counted = np.where(
        table["samples"] > 0, table["loss"] * table["samples"], 0.0
    )  # who has none has no loss
    loss = counted.sum(0) / np.maximum(samples, 1)
    follows = np.flatnonzero(np.diff(steps) == 1)
    iteration_ns = np.diff(table["start"], axis=1)[:, follows].max(0) if len(follows) else np.empty(0)
    speed = samples[follows] * 1e9 / np.maximum(iteration_ns, 1)
    return {
        "loss": (steps, loss, time),
        "throughput": (steps[follows], speed, time[follows]),
        "iteration_ms": (steps[follows], iteration_ns / 1e6, time[follows]),
        "exposed_ms": (steps, table["exposed"].max(0) / 1e6 if len(steps) else time, time),
    }


def _measured(
    session: Session, attempt_id: int, name: str | None, first: int, last: int | None
) -> dict[str, Columns]:
    query = select(Metric.name, Metric.step, Metric.value, Metric.at_ns).where(
        Metric.attempt_id == attempt_id, Metric.step >= first
    )
    if last is not None:
        query = query.where(Metric.step <= last)
    if name is not None:
        query = query.where(Metric.name == name)
    by_name: dict[str, list[tuple[int, float | None, int]]] = {}
    for metric, step, value, time in session.execute(query.order_by(Metric.name, Metric.step)):
        by_name.setdefault(metric, []).append((step, value, time))
    return {
        metric: (
            np.array([step for step, _, _ in rows]),
            np.array([value for _, value, _ in rows], float),
            np.array([time for _, _, time in rows]),
        )
        for metric, rows in by_name.items()
    }


def _speed_up(source: Source, first: int, last: int | None) -> Columns:
    rows = [row for row in source.speed_ups() if row.step >= first and (last is None or row.step <= last)]
    return (
        np.array([row.step for row in rows]),
        np.array([np.nan if row.value is None else row.value for row in rows]),
        np.array([row.at_ns for row in rows]),
    )


def names(session: Session, source: Source) -> dict[str, int]:
    """Every series that there is, and the last step that it has a value of."""
    last = source.last_step()
    measured = select(Metric.name, func.max(Metric.step)).where(Metric.attempt_id == source.attempt)
    found = {
        **(dict.fromkeys(OF_STEPS, last) if last >= 0 else {}),
        **dict(session.execute(measured.group_by(Metric.name)).all()),
    }
    if faster := source.speed_ups(1):
        found[SPEED_UP] = faster[0].step
    return found


def _points(step: np.ndarray, value: np.ndarray, time: np.ndarray) -> list[Point]:
    return [
        Point(
            step=int(step[i]), value=float(value[i]) if np.isfinite(value[i]) else None, time_ns=int(time[i])
        )
        for i in thin(value)
    ]
