"""A line of measurements with the interval of each, as a race's figures draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from backend.figures.compare import DASHES
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS


@dataclass(frozen=True, kw_only=True)
class Line:
    """One member's measurements."""

    member: int
    """Its place in the race: the colour."""
    group: int
    """What differs beside the member: how it is dashed."""
    name: str
    x: tuple[float, ...]
    """(n), ascending."""
    y: tuple[float, ...]
    """(n)."""
    low: tuple[float | None, ...]
    """(n) ends of the 95 % confidence interval of each y; None with too few rounds."""
    high: tuple[float | None, ...]


def trace(line: Line, said: Sequence[str], request: FigureRequest) -> go.Scatter:
    """A line as it is drawn. `said`: what each point says to who points at it."""
    series = COLOURS[request.theme].series
    again, place = divmod(line.member, len(series))  # more members than colours: the next ones are dashed
    colour, y = series[place], np.array(line.y)
    low, high = (
        np.array([np.nan if end is None else end for end in ends])  # no interval: not one of length 0
        for ends in (line.low, line.high)
    )
    return go.Scatter(
        x=np.array(line.x),
        y=y,
        mode="lines+markers",
        name=as_text(line.name),
        line={"width": 2.2, "color": colour, "dash": DASHES[(line.group + again) % len(DASHES)]},
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
