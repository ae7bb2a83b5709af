"""How long a race still takes, by those of its jobs that have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from backend.races.field import Cell


@dataclass(frozen=True, kw_only=True)
class Started:
    """A job of a race that has started. How long it was queued before is none of its time: a queue says how busy the
    machine was with other jobs, and not how long this race's take."""

    cell: Cell
    started_ns: int
    ended_ns: int | None
    """None: it runs."""


def left_ns(jobs: Iterable[Started], to_start: Mapping[Cell, int], now_ns: int) -> int | None:
    """The time until the last job ends: of each job that has not ended, what one of its cell took, the median; where
    none of the cell has ended, one under its condition, else any. A job that runs has some of that behind it.
    `to_start`: how many jobs of each cell have not started. None: no job has ended."""
    jobs = list(jobs)
    took = [(one.cell, one.ended_ns - one.started_ns) for one in jobs if one.ended_ns is not None]
    if not took:
        return None

    def likely(cell: Cell) -> float:
        own = [ns for other, ns in took if other == cell]
        alike = [ns for other, ns in took if other.condition == cell.condition]
        return median(own or alike or [ns for _, ns in took])

    whole = sum(count * likely(cell) for cell, count in to_start.items())
    rest = (max(0.0, likely(one.cell) - (now_ns - one.started_ns)) for one in jobs if one.ended_ns is None)
    return round(whole + sum(rest))
