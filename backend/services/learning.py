"""How a race's plans learned as curves: what `figures/race_learning.py` draws. Pure, over the answer of `best.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backend.figures.base import Labels
from backend.figures.compare import By
from backend.figures.intervals import Line
from backend.figures.race_learning import Learning
from backend.schemas.best import BestCurve, BestPoint, RaceBest
from engine.errors import UserError

OVER: Mapping[By, Callable[[BestPoint], float | None]] = {
    "step": lambda point: point.step,
    "samples": lambda point: point.samples,
    "bytes": lambda point: point.sent_bytes,
    "time": lambda point: point.seconds,
}


def learning(best: RaceBest, condition: int, by: By, labels: Labels) -> Learning:
    """The curves of one condition. Raises UserError for one that the race does not have."""
    last = len(best.conditions) - 1
    if not 0 <= condition <= last:
        raise UserError(
            "condition",
            condition,
            f"this race has {last + 1}, counted from 0",
            "Use 0" if last == 0 else f"Use a number from 0 to {last}",
        )
    curves = best.conditions[condition].curves
    return Learning(
        race_id=best.race_id,
        condition=condition,
        score=best.score,
        by=by,
        lines=tuple(_line(curve, OVER[by]) for curve in curves),
        labels=labels,
    )


def _line(curve: BestCurve, of: Callable[[BestPoint], float | None]) -> Line:
    points = [(x, point) for point in curve.points if (x := of(point)) is not None]
    return Line(
        member=curve.member,
        group=0,
        name=curve.name,
        x=tuple(x for x, _ in points),
        y=tuple(point.score for _, point in points),
        low=tuple(point.low for _, point in points),
        high=tuple(point.high for _, point in points),
    )
