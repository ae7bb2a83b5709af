"""A line of measurements with the interval of each, as a race's figures draw them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from backend.figures.compare import DASHES
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS

Ends = Sequence[float | None]


def line(
    request: FigureRequest,
    name: str,
    points: tuple[Sequence[float], Sequence[float]],
    ends: tuple[Ends, Ends],
    *,
    member: int,
    dash: int,
    said: Sequence[str],
) -> go.Scatter:
    """The trace. `points`: x and y. `ends`: the lower and upper ones of each y's interval, None where there is none.
    `member` chooses the colour, `dash` how it is dashed. `said`: what each point says to who points at it."""
    series = COLOURS[request.theme].series
    colour, y = series[member % len(series)], np.array(points[1])
    low, high = (
        np.array([np.nan if end is None else end for end in each])  # no interval: not one of length 0
        for each in ends
    )
    return go.Scatter(
        x=np.array(points[0]),
        y=y,
        mode="lines+markers",
        name=as_text(name),
        line={"width": 2.2, "color": colour, "dash": DASHES[dash % len(DASHES)]},
        marker={"size": 7},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": high - y,
            "arrayminus": y - low,
            "color": colour,
            "thickness": 1.2,
            "width": 4,
        },
        text=list(said),
        hovertemplate="%{text}",
    )


def colours(request: FigureRequest) -> int:
    """How many lines differ by colour: further ones are dashed."""
    return len(COLOURS[request.theme].series)
