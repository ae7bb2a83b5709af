"""From a batch to rows of the rollups. Building is done before the write transaction, storing inside of
it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from backend.db.models import Base, LayerTotal, Link, LinkBin, Metric, StepRow
from engine.telemetry.batch import Batch
from engine.telemetry.events import LEVELS
from engine.telemetry.spread import coarsen

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Upsert:
    """Rows of one table; where a key is there already, `add` columns grow and the others are replaced."""

    model: type[Base]
    rows: Sequence[Row]
    add: tuple[str, ...] = ()

    def store(self, session: Session) -> None:
        if not self.rows:
            return
        table = self.model.__table__
        assert isinstance(table, Table)
        dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
        statement = dialect.insert(table)
        keys = [column.name for column in table.primary_key]
        values = {
            column.name: column + statement.excluded[column.name]
            if column.name in self.add
            else statement.excluded[column.name]
            for column in table.columns
            if column.name not in keys
        }
        statement = statement.on_conflict_do_update(index_elements=keys, set_=values)
        session.execute(statement, self.rows)


def build(batch: Batch) -> list[Upsert]:
    """Everything that the rollups learn from this batch."""
    who = {"attempt_id": batch.attempt, "party": batch.party}
    return [
        Upsert(model=Link, rows=[{**who, **vars(link)} for link in batch.links]),
        Upsert(model=StepRow, rows=_steps(batch, who)),
        Upsert(model=Metric, rows=_metrics(batch)),
        Upsert(model=LayerTotal, rows=_totals(batch, who), add=("count", "busy_ns", "bytes", "exposed_ns")),
        Upsert(model=LinkBin, rows=_bins(batch, who), add=("bytes",)),
    ]


def number(value: float) -> float | None:
    """SQLite has no NaN: it stores NULL. So does every database here."""
    return None if math.isnan(value) else value


def _records(fixed: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> list[Row]:
    names = list(columns)
    return [{**fixed, **dict(zip(names, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def _steps(batch: Batch, who: Row) -> list[Row]:
    steps = batch.table("steps")
    return _records(
        who,
        {
            "step": steps["step"].tolist(),
            "start_ns": steps["start"].tolist(),
            "end_ns": steps["end"].tolist(),
            "samples": steps["samples"].tolist(),
            "loss": [number(loss) for loss in steps["loss"].tolist()],
            "exposed_ns": steps["exposed"].tolist(),
            "compute_ns": steps["compute"].tolist(),
            "input_ns": steps["input"].tolist(),
        },
    )


def _metrics(batch: Batch) -> list[Row]:
    metrics = batch.table("metrics")
    return _records(
        {"attempt_id": batch.attempt},
        {
            "name": [batch.metrics[index] for index in metrics["name"].tolist()],
            "step": metrics["step"].tolist(),
            "at_ns": metrics["time"].tolist(),
            "value": [number(value) for value in metrics["value"].tolist()],
        },
    )


def _totals(batch: Batch, who: Row) -> list[Row]:
    totals = batch.table("totals")
    same = ("step", "layer", "kind", "track", "count", "bytes")
    return _records(
        who,
        {name: totals[name].tolist() for name in same}
        | {"busy_ns": totals["busy"].tolist(), "exposed_ns": totals["exposed"].tolist()},
    )


def _bins(batch: Batch, who: Row) -> list[Row]:
    rows: list[Row] = []
    bins: np.ndarray = batch.table("bins")
    for level in range(LEVELS):
        if level:
            bins = coarsen(bins)
        rows += _records(
            {**who, "level": level},
            {"interface": [batch.links[index].interface for index in bins["link"].tolist()]}
            | {name: bins[name].tolist() for name in ("direction", "layer", "bin", "bytes")},
        )
    return rows
