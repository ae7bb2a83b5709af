"""A race's throughput as curves: what `figures/race_throughput.py` draws. Pure, over rankings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backend.figures.base import Labels
from backend.figures.intervals import Line
from backend.figures.race_throughput import Axis, Curves, Mark
from backend.races.spec import RaceSpec, labels
from backend.schemas.races import Ranking
from backend.services.crossings import Crossing
from backend.services.errors import Conflict
from engine.plan.units_of_measure import parse_rate


def curves(
    race_id: str, spec: RaceSpec, rankings: Sequence[Ranking], crossings: Sequence[Crossing]
) -> Curves:
    """Over the rate where the race has several, else over workers, else over batches. Raises Conflict for a race with
    one condition: it has no curve."""
    axis = _axis(spec)
    if axis is None:
        raise Conflict(
            f"race {race_id} has one condition: throughput can be drawn against rates, numbers of workers or batches "
            "where at least two of them race. Submit it again with two rates, as `rates: [100Mbit, 1Gbit]`"
        )
    names = labels(spec.members)
    groups = sorted({_beside(one, axis) for one in rankings})
    lines = tuple(
        _line(names[member], member, number, [one for one in rankings if _beside(one, axis) == group], axis)
        for number, group in enumerate(groups)
        for member in range(len(names))
    )
    marks = () if axis != "rate" else tuple(_mark(one, lines, rankings) for one in crossings)
    return Curves(
        race_id=race_id,
        axis=axis,
        lines=lines,
        marks=tuple(mark for mark in marks if mark is not None),
        labels=Labels(rehearsed=spec.job.rehearsed, slowed=spec.job.slowed),
    )


def _axis(spec: RaceSpec) -> Axis | None:
    axes: tuple[tuple[Axis, int], ...] = (
        ("rate", len(spec.rates)),
        ("workers", len(spec.workers)),
        ("batch", len(spec.batches)),
    )
    return next((axis for axis, count in axes if count > 1), None)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _beside(ranking: Ranking, axis: Axis) -> str:
    """What else the ranking's condition says: `4 workers, batch 64`; empty where nothing."""
    parts = [
        ranking.rate if axis != "rate" else None,
        _workers(ranking.workers) if axis != "workers" and ranking.workers is not None else None,
        f"batch {ranking.batch}" if axis != "batch" and ranking.batch is not None else None,
    ]
    return ", ".join(part for part in parts if part)


def _line(name: str, member: int, group: int, rankings: Sequence[Ranking], axis: Axis) -> Line:
    points, joined = [], False
    for one in rankings:
        standing = next(each for each in one.standings if each.member == member)
        joined = joined or standing.joined_s is not None
        if standing.samples_per_s is not None:
            at = (standing.samples_per_s, standing.samples_low, standing.samples_high)
            points.append((_at(one, axis), *at))
    points.sort(key=lambda point: point[0])
    beside = _beside(rankings[0], axis)
    name = f"{name} (joined later)" if joined else name
    return Line(
        member=member,
        group=group,
        name=f"{name}, {beside}" if beside else name,
        x=tuple(point[0] for point in points),
        y=tuple(point[1] for point in points),
        low=tuple(point[2] for point in points),
        high=tuple(point[3] for point in points),
    )


def _at(ranking: Ranking, axis: Axis) -> float:
    if axis == "rate":
        return float(parse_rate(ranking.rate or "", "rates"))
    return float((ranking.workers if axis == "workers" else ranking.batch) or 0)


def _mark(crossing: Crossing, lines: Sequence[Line], rankings: Sequence[Ranking]) -> Mark | None:
    """On the line of who was ahead below it."""
    there = next(
        one for one in rankings if (one.workers, one.batch) == (crossing.workers, crossing.batch) and one.rate
    )
    beside = _beside(there, "rate")
    line = next(
        line
        for line in lines
        if line.member == crossing.ahead and (line.name.endswith(f", {beside}") if beside else True)
    )
    known = dict(zip(line.x, line.y, strict=True))
    if not all(rate in known for rate in crossing.between):
        return None
    (low, high), x = crossing.between, crossing.rate_bps
    share = math.log(x / low) / math.log(high / low)
    y = math.exp((1 - share) * math.log(known[low]) + share * math.log(known[high]))
    return Mark(x=x, samples_per_s=y, text=crossing.text)
