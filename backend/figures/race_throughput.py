"""A race's throughput against what its conditions vary: the rate of the network, else workers, else the batch.

A line is one member (at one number of workers and one batch, where these vary beside the rate), its bars the 95 %
confidence interval over rounds; of a very wide one the end is cut, and the figure says so. Where two lines cross, and
it is certain who is faster on either side, the crossing is marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import Labels, finish, notice, say_labels, sign
from backend.figures.intervals import Line, trace
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS
from engine.plan.units_of_measure import format_rate

Axis = Literal["rate", "workers", "batch"]
HEADROOM = 1.5
"""Intervals are shown up to so many times the highest point, and on a logarithmic axis down to the lowest point over as
much: a very wide one would press all points into a line."""
FLAT = 5.0
"""Where the highest point is more than so many times the lowest, an axis from 0 on makes the slowest one line."""
CUT = "Intervals that end at the upper edge go on above it"
CUT_BELOW = "Intervals that end at the lower edge go on below it"
HOW_TO_SEE = "point at them"
TITLES: dict[Axis, str] = {"rate": "rate of each port", "workers": "workers", "batch": "global batch"}
UNITS: dict[Axis, str] = {"rate": "bit/s"}
"""Of `x`, for files: ticks say it themselves."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A crossing."""

    x: float
    samples_per_s: float
    text: str
    """`ddp catches up with p3 between 500 Mbit/s and 1 Gbit/s, at about 900 Mbit/s`."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """All that is drawn of a race."""

    race_id: str
    axis: Axis
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    labels: Labels = Labels()
    goes_on: bool = False
    """Whether jobs of it are yet to run."""


def race_throughput(curves: Curves, request: FigureRequest) -> go.Figure:
    """The figure; it says so where no member has figures."""
    revision = f"race-throughput:{curves.race_id}"
    lines = [line for line in curves.lines if line.x]
    if not lines:
        yet = " yet" if curves.goes_on else ""
        text = f"No member has figures{yet}: no job of this race has succeeded{yet}"
        return notice(request, revision=revision, text=text)
    figure = go.Figure()
    for line in lines:
        said = [f"{_x(x, curves.axis)}: {_sure(line, place)}" for place, x in enumerate(line.x)]
        figure.add_trace(trace(line, said, request))
    if curves.marks:
        _marks(figure, curves.marks, request)
    _axes(figure, curves.axis, sorted({x for line in lines for x in line.x}))
    cut = _limit(figure, lines)
    figure.update_layout(hovermode="closest", showlegend=True)
    alt = "; ".join(
        [
            *(f"{line.name}: {_said(line, curves.axis)}" for line in lines),
            *(mark.text for mark in curves.marks),
            *([cut] if cut else []),
        ]
    )
    meta = {"axis": curves.axis, "crossings": [mark.text for mark in curves.marks]}
    finish(figure, request, revision=revision, height=380, alt=alt, meta=meta)
    if cut:
        sign(figure, request, cut)
    say_labels(figure, request, curves.labels)
    return figure


def _marks(figure: go.Figure, marks: Sequence[Mark], request: FigureRequest) -> None:
    colours = COLOURS[request.theme]
    figure.add_trace(
        go.Scatter(
            x=np.array([mark.x for mark in marks]),
            y=np.array([mark.samples_per_s for mark in marks]),
            mode="markers",
            name="crossing",
            marker={"size": 13, "symbol": "circle-open", "color": colours.text, "line": {"width": 2}},
            text=[as_text(mark.text) for mark in marks],
            hovertemplate="%{text}<extra></extra>",
        )
    )


def _axes(figure: go.Figure, axis: Axis, at: Sequence[float]) -> None:
    """A logarithmic axis with a tick where somebody raced."""
    figure.update_xaxes(
        type="log",
        title_text=TITLES[axis],
        ticksuffix=UNITS.get(axis),
        tickmode="array",
        tickvals=np.array(at),
        ticktext=[_x(x, axis) for x in at],
    )
    figure.update_yaxes(title_text="samples/s")


def _limit(figure: go.Figure, lines: Sequence[Line]) -> str:
    """Let the axis begin at 0 and hold all points, and intervals as far as these leave them readable. Where the slowest
    would lie on one another down there it is logarithmic. Answers what is to be said of intervals that are cut; empty:
    none is."""
    lowest = min(y for line in lines for y in line.y)
    highest = max(y for line in lines for y in line.y)
    widest = max([highest, *(end for line in lines for end in line.high if end is not None)])
    top = min(widest, HEADROOM * highest)
    cut = [CUT] if widest > top else []
    if 0 < lowest < highest / FLAT:
        least = min([lowest, *(end for line in lines for end in line.low if end is not None)])
        bottom = max(least, lowest / HEADROOM)
        cut += [CUT_BELOW] if least < bottom else []
        figure.update_yaxes(type="log", range=[math.log10(bottom / 1.1), math.log10(1.1 * top)])
    else:
        figure.update_yaxes(range=[0, 1.05 * top])
    return "; ".join(cut) + f": {HOW_TO_SEE}" if cut else ""


def _said(line: Line, axis: Axis) -> str:
    return ", ".join(f"{_sure(line, place)} at {_x(x, axis)}" for place, x in enumerate(line.x))


def _sure(line: Line, place: int) -> str:
    """`120 samples/s (118 to 123)`."""
    text, low, high = f"{line.y[place]:.4g} samples/s", line.low[place], line.high[place]
    return text if low is None or high is None else f"{text} ({low:.4g} to {high:.4g})"


def _x(x: float, axis: Axis) -> str:
    if axis == "rate":
        return format_rate(x)
    return f"{x:g} worker{'s' * (x != 1)}" if axis == "workers" else f"{x:g}"
