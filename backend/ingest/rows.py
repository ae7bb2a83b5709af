"""From a batch to rows of the rollups. Building is done before the write transaction, storing inside of
it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from backend.db.models import (
    Base,
    DetailedStep,
    DroppedDetail,
    LayerTotal,
    LayerWait,
    Link,
    LinkBin,
    Metric,
    StalenessCount,
    StalenessWindow,
    StepRow,
    TransferTotal,
)
from backend.ingest import rollups
from backend.ingest.upsert import upsert
from engine.telemetry.batch import Batch
from engine.telemetry.events import LEVELS
from engine.telemetry.spread import coarsen, join_layers, layers_per_row


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one table, each in the order of the table's columns."""

    model: type[Base]
    rows: Sequence[tuple[Any, ...]]
    add: frozenset[str] = frozenset()
    """Columns that grow where the key is there already; the others are replaced."""

    def store(self, session: Session) -> None:
        upsert(session, self.model, self.rows, self.add)


def build(batch: Batch, layers: int = 0) -> list[Rows]:
    """Everything that the rollups learn from this batch, of a network of so many `layers`."""
    return [
        Rows(model=Link, rows=_links(batch)),
        Rows(model=StepRow, rows=_steps(batch)),
        Rows(model=Metric, rows=_metrics(batch)),
        Rows(
            model=LayerTotal,
            rows=_totals(batch),
            add=frozenset({"count", "busy_ns", "bytes", "exposed_ns"}),
        ),
        Rows(model=LinkBin, rows=_bins(batch, layers_per_row(layers)), add=frozenset({"bytes"})),
        Rows(model=DroppedDetail, rows=_dropped(batch)),
        Rows(model=LayerWait, rows=rollups.layer_waits(batch), add=frozenset({"exposed_ns"})),
        Rows(model=TransferTotal, rows=rollups.transfer_totals(batch), add=frozenset({"busy_ns"})),
        Rows(model=DetailedStep, rows=rollups.detailed_steps(batch)),
        Rows(model=StalenessCount, rows=rollups.staleness_counts(batch), add=frozenset({"count"})),
        Rows(model=StalenessWindow, rows=rollups.staleness_windows(batch), add=frozenset({"count"})),
    ]


def number(value: float) -> float | None:
    """None for what is no finite number: SQLite stores NaN as NULL, and JSON has neither NaN nor infinity."""
    return value if math.isfinite(value) else None


def _table(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows of columns; one that is `repeat`ed is as long as the others (of which there is one, the last)."""
    return list(zip(*columns, strict=False))


def _columns(table: np.ndarray, *names: str) -> list[list[Any]]:
    return [table[name].tolist() for name in names]


def _links(batch: Batch) -> list[tuple[Any, ...]]:
    return [
        (
            batch.attempt,
            batch.party,
            link.interface,
            link.host,
            link.rate_bps,
            link.rate_source,
            link.shared,
            link.by_size,
        )
        for link in batch.links
    ]


def _dropped(batch: Batch) -> list[tuple[Any, ...]]:
    if not batch.dropped:
        return []
    return [(batch.attempt, batch.party, batch.sequence, batch.dropped, *batch.dropped_steps)]


def _steps(batch: Batch) -> list[tuple[Any, ...]]:
    steps = batch.table("steps")
    return _table(
        repeat(batch.attempt),
        *_columns(steps, "step"),
        repeat(batch.party),
        *_columns(steps, "start", "end", "samples"),
        map(number, steps["loss"].tolist()),
        *_columns(steps, "exposed", "compute", "input"),
    )


def _metrics(batch: Batch) -> list[tuple[Any, ...]]:
    metrics = batch.table("metrics")
    names = [batch.metrics[index] for index in metrics["name"].tolist()]
    values = map(number, metrics["value"].tolist())
    return _table(repeat(batch.attempt), names, *_columns(metrics, "step", "time"), values)


def _totals(batch: Batch) -> list[tuple[Any, ...]]:
    totals = batch.table("totals")
    return _table(
        repeat(batch.attempt),
        *_columns(totals, "step"),
        repeat(batch.party),
        *_columns(totals, "layer", "kind", "track", "count", "busy", "bytes", "exposed"),
    )


def _bins(batch: Batch, size: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    bins: np.ndarray = batch.table("bins")
    for level in range(LEVELS):
        if level:
            bins = coarsen(bins)
        if level == 1 and size > 1:
            bins = join_layers(bins, size)
        interfaces = [batch.links[index].interface for index in bins["link"].tolist()]
        columns = _columns(bins, "bin", "direction", "layer", "bytes")
        rows += _table(repeat(batch.attempt), repeat(level), repeat(batch.party), interfaces, *columns)
    return rows
