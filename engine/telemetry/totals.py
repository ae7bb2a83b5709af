"""Totals of all events per (step, layer, kind, track), in exact integer arithmetic."""

from __future__ import annotations

import numpy as np

from engine.telemetry.events import EVENT, TOTAL, Kind, Track

_KEYS = ("step", "layer", "kind", "track")
_SUMS = ("count", "busy", "bytes", "exposed")
_MERGE_AT = 64
"""Partial results are merged when there are this many, so that a stalled flush does not let them pile up."""


def group_sum(rows: np.ndarray, keys: tuple[str, ...], sums: tuple[str, ...]) -> np.ndarray:
    """Rows with equal `keys` become one, their `sums` added; sorted by key. Same dtype in and out."""
    if len(rows) == 0:
        return rows
    order = np.lexsort([rows[key] for key in reversed(keys)])
    rows = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = False
    for key in keys:
        new[1:] |= rows[key][1:] != rows[key][:-1]
    first = np.flatnonzero(new)
    merged = rows[first]
    for column in sums:
        merged[column] = np.add.reduceat(rows[column], first)
    return merged


def event_totals(events: np.ndarray) -> np.ndarray:
    """TOTAL rows of EVENT rows, one per key.

    `busy` is the sum of durations (two transfers at once count twice), `exposed` that of waits on the compute
    track: there, and only there, a worker computes nothing because a version has not arrived.
    """
    rows = np.zeros(len(events), TOTAL)
    for key in _KEYS:
        rows[key] = events[key]
    duration = np.maximum(events["end"] - events["start"], 0)
    rows["count"] = 1
    rows["busy"] = duration
    rows["bytes"] = events["bytes"]
    rows["exposed"] = np.where(
        (events["kind"] == Kind.WAIT) & (events["track"] == Track.COMPUTE), duration, 0
    )
    return group_sum(rows, _KEYS, _SUMS)


def merge_totals(*parts: np.ndarray) -> np.ndarray:
    """Totals of everything that the parts total."""
    return group_sum(np.concatenate([np.empty(0, TOTAL), *parts]), _KEYS, _SUMS)


class Totals:
    """Running totals since the last `take`."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    def add(self, events: np.ndarray) -> None:
        assert events.dtype == EVENT
        if len(events):
            self._parts.append(event_totals(events))
        if len(self._parts) >= _MERGE_AT:
            self._parts = [merge_totals(*self._parts)]

    def take(self) -> np.ndarray:
        parts, self._parts = self._parts, []
        return merge_totals(*parts)
