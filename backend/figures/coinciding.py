"""Which of several curves lie on one another: losses of exact strategies are equal, and one line hides the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import wrap
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS

NEAR = 0.004
"""Of the height of all curves together, and of a curve's length: about one pixel, half of what a line is thick."""
LINE_CHARS = 64


class Drawn(Protocol):
    """What of a curve is looked at: its name, and (n) points as they are drawn, ascending in x; what lies above the
    axis is at its end."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> np.ndarray: ...
    @property
    def value(self) -> np.ndarray: ...


def coinciding(curves: Sequence[Drawn]) -> list[list[str]]:
    """The names of those that nobody can tell apart by their lines, in groups of at least two, in the curves' order.
    Curves coincide that begin and end alike, and are nowhere further apart than a line is thick."""
    drawn = [one for one in curves if len(one.x) > 1]
    if len(drawn) < 2:
        return []
    values = np.concatenate([one.value for one in drawn])
    height = float(values.max() - min(values.min(), 0.0))
    groups: list[list[Drawn]] = []
    for one in drawn:
        group = next((group for group in groups if _alike(group[0], one, NEAR * height)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [[one.name for one in group] for group in groups if len(group) > 1]


def say_coinciding(figure: go.Figure, curves: Sequence[Drawn], request: FigureRequest) -> None:
    """Write into the figure which curves coincide, in the lower corner that curves which fall, or rise, leave free;
    nothing where none do."""
    groups = coinciding(curves)
    if not groups:
        return
    lines = [line for names in groups for line in wrap(_words(names), LINE_CHARS)]
    first = next(one for one in curves if one.name == groups[0][0])
    side = "left" if first.value[0] >= first.value[-1] else "right"
    figure.add_annotation(
        text="<br>".join(as_text(line) for line in lines),
        xref="paper",
        yref="paper",
        x=0.01 if side == "left" else 0.99,
        y=0.02,
        xanchor=side,
        yanchor="bottom",
        align=side,
        showarrow=False,
        font={"color": COLOURS[request.theme].muted, "size": 12},
    )


def _words(names: list[str]) -> str:
    hidden = "the other" if len(names) == 2 else "the others"
    return f"{', '.join(names[:-1])} and {names[-1]} coincide: one line hides {hidden}"


def _alike(one: Drawn, other: Drawn, near: float) -> bool:
    length = float(one.x[-1] - one.x[0])
    ends = abs(one.x[0] - other.x[0]), abs(one.x[-1] - other.x[-1])
    if max(ends) > NEAR * length:
        return False
    return bool(np.abs(np.interp(other.x, one.x, one.value) - other.value).max() <= near)
