"""What figures and lists read of steps: their rows, and sums over groups of 1, 8, 64, ... of them, as many as can be
drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import Select, String, cast, func, select
from sqlalchemy.orm import Session

from backend.db.models import DetailedStep, LayerTotal, LayerWait, Metric, StepRow, TransferTotal
from backend.db.models.rollups import STEP_FACTOR, STEP_LEVELS
from engine.telemetry import absence
from engine.telemetry.absence import Absence, Said, absences
from engine.telemetry.events import Kind
from engine.telemetry.resumption import RESUMED

STEP_ROW = np.dtype(
    [
        ("party", "<i2"),
        ("step", "<i4"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("samples", "<i8"),
        ("loss", "<f8"),
        ("exposed", "<i8"),
        ("compute", "<i8"),
        ("input", "<i8"),
    ]
)
EDGE_ROW = np.dtype([("step", "<i4"), ("start", "<i8"), ("end", "<i8")])
WAIT_ROW = np.dtype([("step", "<i4"), ("layer", "<i2"), ("exposed", "<i8")])


def step_rows(session: Session, attempt: int, first: int = 0, last: int | None = None) -> np.ndarray:
    """STEP_ROW of steps `first` to `last`, by step and party."""
    query = select(
        StepRow.party,
        StepRow.step,
        StepRow.start_ns,
        StepRow.end_ns,
        StepRow.samples,
        StepRow.loss,
        StepRow.exposed_ns,
        StepRow.compute_ns,
        StepRow.input_ns,
    ).where(StepRow.attempt_id == attempt, StepRow.step >= first)
    if last is not None:
        query = query.where(StepRow.step <= last)
    rows = fetch(session, query, STEP_ROW)
    return rows[np.lexsort((rows["party"], rows["step"]))]


def last_step(session: Session, attempt: int) -> int:
    """The last step that any worker ended; -1 where none did."""
    last = session.scalar(select(func.max(StepRow.step)).where(StepRow.attempt_id == attempt))
    return -1 if last is None else int(last)


def group_size(steps: int, most: int) -> int:
    """Steps of a group (1, 8, 64, ...) so that `steps` of them are at most `most` groups, as far as there are
    levels."""
    for level in range(STEP_LEVELS):
        if steps <= most * STEP_FACTOR**level:
            return int(STEP_FACTOR**level)
    return int(STEP_FACTOR ** (STEP_LEVELS - 1))


def aligned(first: int, last: int, size: int) -> tuple[int, int]:
    """The whole groups of `size` steps that hold the steps from `first` to `last`."""
    return first // size * size, last // size * size + size - 1


def waits(session: Session, attempt: int, first: int, last: int, size: int) -> np.ndarray:
    """WAIT_ROW of all workers' exposed waits in groups of `size` steps, from the one of step `first` to that of
    `last`."""
    query = select(LayerWait.step, LayerWait.layer, LayerWait.exposed_ns).where(
        LayerWait.attempt_id == attempt,
        LayerWait.level == _level(size),
        LayerWait.step >= first // size * size,
        LayerWait.step <= last,
    )
    return fetch_whole(session, query, WAIT_ROW)


def waits_for(
    session: Session, attempt: int, layer: int, first: int, last: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """`(edges (n+1) ns, exposed (n) ns)` of the groups of `size` steps from the one of step `first` to that of `last`:
    when worker 0 started each and ended the last one, and all workers' exposed wait for one layer."""
    groups = np.arange(first // size * size, last + 1, size)
    final = min(int(groups[-1]) + size - 1, last_step(session, attempt))
    ends = select(StepRow.step, StepRow.start_ns, StepRow.end_ns).where(
        StepRow.attempt_id == attempt, StepRow.party == 0, StepRow.step.in_([*groups.tolist(), final])
    )
    found = fetch(session, ends.order_by(StepRow.step), EDGE_ROW)
    if not len(found):
        return np.zeros(1), np.zeros(0)
    edges = np.append(np.interp(groups, found["step"], found["start"]), found["end"][-1])
    query = select(LayerWait.step, LayerWait.layer, LayerWait.exposed_ns).where(
        LayerWait.attempt_id == attempt,
        LayerWait.level == _level(size),
        LayerWait.step >= groups[0].item(),
        LayerWait.step <= last,
        LayerWait.layer == layer,
    )
    rows = fetch_whole(session, query, WAIT_ROW)
    exposed = np.zeros(len(groups))
    exposed[(rows["step"] - groups[0]) // size] = rows["exposed"]
    return edges, exposed


def exposed_by_layer(session: Session, attempt: int, first: int, last: int) -> dict[int, int]:
    """All workers' exposed wait over steps `first` to `last`, in ns, by layer."""
    found: dict[int, int] = {}
    for level, start, end in _blocks(first, last):
        query = (
            select(LayerWait.layer, func.sum(LayerWait.exposed_ns))
            .where(
                LayerWait.attempt_id == attempt,
                LayerWait.level == level,
                LayerWait.step >= start,
                LayerWait.step < end,
            )
            .group_by(LayerWait.layer)
        )
        for layer, exposed in session.execute(query):
            found[layer] = found.get(layer, 0) + int(exposed)
    return found


def sent_bytes(session: Session, attempt: int, first: int, last: int) -> float | None:
    """Mean bytes that all parties sent in one of the steps `first` to `last`; None where none were counted."""
    sums = select(func.sum(LayerTotal.bytes), func.count(LayerTotal.step.distinct())).where(
        LayerTotal.attempt_id == attempt,
        LayerTotal.step >= first,
        LayerTotal.step <= last,
        LayerTotal.kind == Kind.SEND,
    )
    total, steps = session.execute(sums).one()
    return int(total) / steps if total and steps else None


def transfers(
    session: Session, attempt: int, first: int, last: int, size: int
) -> list[tuple[int, int, int, int]]:
    """(party, first step, kind, busy ns) of sends and receives in groups of `size` steps, as `waits`."""
    row = TransferTotal
    query = select(row.party, row.step, row.kind, row.busy_ns).where(
        row.attempt_id == attempt,
        row.level == _level(size),
        row.step >= first // size * size,
        row.step <= last,
    )
    return [(party, step, kind, int(busy)) for party, step, kind, busy in session.execute(query)]


def detailed_steps(session: Session, attempt: int, workers: int) -> np.ndarray:
    """Steps of which every worker sent detailed events, ascending."""
    query = (
        select(DetailedStep.step)
        .where(DetailedStep.attempt_id == attempt, DetailedStep.party < max(workers, 1))
        .group_by(DetailedStep.step)
        .having(func.count() == max(workers, 1))
    )
    return np.array(session.scalars(query.order_by(DetailedStep.step)).all(), np.int32)


def newest_detailed_step(session: Session, attempt: int, workers: int) -> int | None:
    """The last of them that any worker ended; None where there is none. What it costs does not grow with the job."""
    query = (
        select(DetailedStep.step)
        .where(
            DetailedStep.attempt_id == attempt,
            DetailedStep.party < max(workers, 1),
            DetailedStep.step <= last_step(session, attempt),
        )
        .group_by(DetailedStep.step)
        .having(func.count() == max(workers, 1))
    )
    return session.scalar(query.order_by(DetailedStep.step.desc()).limit(1))


def resumed_step(session: Session, attempt: int) -> int | None:
    """Of the checkpoint that the attempt goes on from, as its worker 0 has said; None: it began at step 0, or has not
    begun."""
    query = select(Metric.step).where(Metric.attempt_id == attempt, Metric.name == RESUMED)
    return session.scalars(query.limit(1)).first()


def absent(session: Session, attempt: int, workers: int) -> dict[int, list[Absence]]:
    """By rank, of the workers that were lost: when they were away."""
    names = [name(rank) for rank in range(workers) for name in (absence.lost, absence.joined)]
    query = select(Metric.name, Metric.step, Metric.at_ns)
    rows = session.execute(query.where(Metric.attempt_id == attempt, Metric.name.in_(names)))
    return absences((Said(name, incarnation, at_ns) for name, incarnation, at_ns in rows), workers)


def fetch(session: Session, query: Select[*tuple[Any, ...]], dtype: np.dtype) -> np.ndarray:
    """A query's rows as they come from the driver: making SQLAlchemy's rows of them first takes twice as long.

    A NULL float arrives as None, which NumPy turns into NaN.
    """
    result = session.connection().execute(query)
    assert result.cursor is not None
    rows = result.cursor.fetchall()
    result.close()
    return np.array(rows, dtype)


def fetch_whole(session: Session, query: Select[*tuple[Any, ...]], dtype: np.dtype) -> np.ndarray:
    """The same of whole numbers that are never NULL, in any order: every column comes as one text, in less than half
    the time where rows are tens of thousands."""
    columns = query.subquery().c
    texts = session.execute(
        select(*(func.aggregate_strings(cast(one, String), ",") for one in columns))
    ).one()
    numbers = [np.fromstring(text or "", np.int64, sep=",") for text in texts]
    rows = np.empty(len(numbers[0]), dtype)
    for name, values in zip(dtype.names or (), numbers, strict=True):
        rows[name] = values
    return rows


def _level(size: int) -> int:
    return round(np.log2(size) / np.log2(STEP_FACTOR))


def _blocks(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """(level, start, end) of as few rows as make up exactly the steps from `first` to `last`; ends excluded."""
    end = last + 1
    ends = []
    for level in range(STEP_LEVELS):
        above = STEP_FACTOR ** (level + 1)
        top = level == STEP_LEVELS - 1
        inner = (end, end) if top else (-(-first // above) * above, end // above * above)
        if top or inner[0] >= inner[1]:
            if first < end:
                ends.append((level, first, end))
            break
        ends += [(level, first, inner[0])] * (first < inner[0]) + [(level, inner[1], end)] * (inner[1] < end)
        first, end = inner
    yield from ends
