"""How every plan of a race learned: its score over steps, samples, bytes or time, with the means over rounds.

A line is one plan, its bars the 95 % confidence interval over rounds. A plan whose bytes nobody counted is named below,
and so is one that was never evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

from backend.figures.base import Labels, finish, notice, say_labels, sign
from backend.figures.compare import AXES, By
from backend.figures.intervals import Line, trace
from backend.figures.request import FigureRequest

Score = Literal["accuracy", "loss"]
TITLES: dict[Score, str] = {"accuracy": "test accuracy", "loss": "test loss"}
UNITS: dict[By, str] = {"bytes": "B", "time": "s"}


@dataclass(frozen=True, kw_only=True)
class Learning:
    """All that is drawn of one condition of a race."""

    race_id: str
    condition: int
    """Its place among the race's conditions."""
    score: Score
    by: By
    lines: tuple[Line, ...]
    labels: Labels = Labels()


def race_learning(learning: Learning, request: FigureRequest) -> go.Figure:
    """The figure; it says so where no plan has been evaluated."""
    revision = f"race-learning:{learning.race_id}:{learning.condition}:{learning.by}"
    lines = [line for line in learning.lines if line.x]
    title = TITLES[learning.score]
    if not lines:
        reason = "nobody counted a plan's bytes" if learning.by == "bytes" else "no job was evaluated"
        return notice(request, revision=revision, text=f"No {title} to draw: {reason}")
    figure = go.Figure()
    for line in lines:
        said = [_said(learning.score, line, place) for place in range(len(line.x))]
        figure.add_trace(trace(line, said, request))
    unit = UNITS.get(learning.by)
    figure.update_xaxes(
        title_text=AXES[learning.by], rangemode="tozero", tickformat="~s", ticksuffix=unit, hoverformat=".4s"
    )
    figure.update_yaxes(
        title_text=title, rangemode="tozero", tickformat=".0%" if learning.score == "accuracy" else None
    )
    figure.update_layout(hovermode="closest", showlegend=True)
    alt = "; ".join(f"{line.name}: {_said(learning.score, line, -1)} at last" for line in lines)
    left_out = [line.name for line in learning.lines if not line.x]
    meta = {"by": learning.by, "left_out": left_out}
    finish(figure, request, revision=revision, height=360, alt=alt, meta=meta)
    if left_out:
        sign(figure, request, f"Not measured: {', '.join(left_out)}")
    say_labels(figure, request, learning.labels)
    return figure


def _said(score: Score, line: Line, place: int) -> str:
    """`94.3 % (92.1 % to 96.5 %)`."""
    text, ends = _value(score, line.y[place]), (line.low[place], line.high[place])
    low, high = (None if end is None else _value(score, end) for end in ends)
    return text if low is None or high is None else f"{text} ({low} to {high})"


def _value(score: Score, value: float) -> str:
    return f"{100 * value:.2f} %" if score == "accuracy" else f"{value:.3f}"
