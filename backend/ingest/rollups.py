"""From a batch to the rollups over steps (levels of 1, 8, 64, ... steps) and of staleness (over all, and over time)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from backend.db.models.rollups import STEP_FACTOR, STEP_LEVELS
from engine.telemetry.batch import Batch
from engine.telemetry.events import LEVEL_FACTOR, LEVELS, STALENESS_LEVEL, Kind
from engine.telemetry.totals import group_sum

_COUNTED = ("layer", "worker", "staleness")
_WINDOWED = ("bin", "worker", "staleness")


def joined(batch: Batch) -> int:
    """Rows that are left of the batch's events and contributions, of which many become one: at least so many are
    stored."""
    applied = batch.table("staleness")
    kept = (len(group_sum(applied, keys, ("count",))) for keys in (_COUNTED, _WINDOWED))
    return len(_detailed(batch)) + sum(kept)


def layer_waits(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of LayerWait."""
    totals = batch.table("totals")
    waited = totals[totals["exposed"] > 0]
    return [
        (batch.attempt, level, step, layer, exposed)
        for level, groups in _levels(waited["step"])
        for step, layer, exposed in _sums(groups, waited["layer"], waited["exposed"])
    ]


def transfer_totals(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of TransferTotal."""
    totals = batch.table("totals")
    moved = totals[np.isin(totals["kind"], (Kind.SEND, Kind.RECEIVE))]
    return [
        (batch.attempt, level, step, batch.party, kind, busy)
        for level, groups in _levels(moved["step"])
        for step, kind, busy in _sums(groups, moved["kind"], moved["busy"])
    ]


def detailed_steps(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of DetailedStep."""
    return [(batch.attempt, step, batch.party) for step in _detailed(batch).tolist()]


def _detailed(batch: Batch) -> np.ndarray:
    steps = np.unique(batch.table("events")["step"])
    return steps[steps >= 0]


def staleness_counts(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of StalenessCount."""
    rows = group_sum(batch.table("staleness"), _COUNTED, ("count",))
    return [(batch.attempt, *row) for row in rows[[*_COUNTED, "count"]].tolist()]


def staleness_windows(batch: Batch) -> list[tuple[Any, ...]]:
    """Rows of StalenessWindow."""
    rows, found = batch.table("staleness"), list[tuple[Any, ...]]()
    for level in range(STALENESS_LEVEL, LEVELS):
        if level > STALENESS_LEVEL:
            rows = rows.copy()
            rows["bin"] //= LEVEL_FACTOR
        rows = group_sum(rows, _WINDOWED, ("count",))
        found += [(batch.attempt, level, *row) for row in rows[[*_WINDOWED, "count"]].tolist()]
    return found


def _levels(steps: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each level, and the first step of every step's group there (n)."""
    for level in range(STEP_LEVELS):
        size = STEP_FACTOR**level
        yield level, steps // size * size


def _sums(step: np.ndarray, key: np.ndarray, value: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(step, key, sum of values) of every pair that occurs, of three columns (n)."""
    both = step.astype(np.int64) << 16 | (key.astype(np.int64) & 0xFFFF)
    pairs, where = np.unique(both, return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, where, value)
    keys = (pairs & 0xFFFF).astype(np.uint16).astype(np.int16)
    return zip((pairs >> 16).tolist(), keys.tolist(), sums.tolist(), strict=True)
