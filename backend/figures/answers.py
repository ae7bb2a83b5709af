"""What the service asks of a drawing process: whole answers, as bytes and plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from sqlalchemy.orm import Session

from backend.figures import registry
from backend.figures.compare import By, What, compare
from backend.figures.race import cause_of, race
from backend.figures.race_learning import Learning
from backend.figures.race_throughput import Curves
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from engine.plan.largest import LargestCurve

__all__ = ["DrawnRace", "cause_of", "job_figure", "jobs_compared", "jobs_race", "plan_curve", "race_curves"]


@dataclass(frozen=True, kw_only=True)
class DrawnRace:
    """A race, its figure as JSON."""

    headline: str
    step: int | None
    steps: dict[str, int | None]
    figure: str


def job_figure(session: Session, name: str, job_id: str, request: FigureRequest) -> bytes:
    """One figure of one job, as JSON."""
    return _json(registry.figure(name).draw(Source(session, job_id, request.attempt), request))


def jobs_compared(
    session: Session,
    job_ids: Sequence[str],
    what: What,
    by: By,
    request: FigureRequest,
    smoothing: int | None = None,
) -> bytes:
    """One measurement of several jobs, as JSON."""
    return _json(compare(session, job_ids, what, by, request, smoothing))


def jobs_race(session: Session, job_ids: Sequence[str], request: FigureRequest) -> DrawnRace:
    """Several jobs on one time axis."""
    drawn = race(session, job_ids, request)
    return DrawnRace(
        headline=drawn.headline, step=drawn.step, steps=drawn.steps, figure=drawn.figure.to_json()
    )


def race_curves(session: Session, name: str, curves: Curves | Learning, request: FigureRequest) -> bytes:
    """One figure of a race of strategies, whose data were read already, as JSON."""
    return _json(registry.race_figure(name).build(curves, request))


def plan_curve(session: Session, name: str, curve: LargestCurve, request: FigureRequest) -> bytes:
    """One figure of a job that has not run, as JSON."""
    return _json(registry.plan_figure(name).build(curve, request))


def _json(figure: go.Figure) -> bytes:
    text: str = figure.to_json()
    return text.encode()
