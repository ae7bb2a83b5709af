"""A map of values, rows down and time across: filled cells in few colours, and a grid that only answers who points.

The grid is Plotly's heat map, which knows each cell's value; but plotly.js draws it as a picture, and a browser
without GPU keeps every live update's, decoded. So it is transparent, and the page does not show it at all
(`figures.css`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures.draw import MAX_OUTLINES, filled, runs
from backend.figures.theme import between

LEVELS = 16
"""Colours of a map, from nothing to the most."""


@dataclass(frozen=True)
class Map:
    """Values (rows, n) of the stretches between `edges` (n + 1, s); NaN: nothing is drawn."""

    values: np.ndarray
    edges: np.ndarray
    most: float
    """The value of the last colour."""
    ends: tuple[str, str]
    """The colours of 0 and of `most`."""
    gap: float = 0.0
    """Between two rows, of a row's height."""
    top: int = 0
    """Number of the first row on the axis."""

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`(values, edges, level)` in columns so wide that neighbours of one level from 1 on, joined, come to at most
        MAX_OUTLINES boxes; level is the number of the colour. A column has a value where one that it joins has."""
        values, edges = self.values, self.edges
        while True:
            shares = np.nan_to_num(values) / self.most
            level = np.clip(np.rint(shares * (LEVELS - 1)), 0, LEVELS - 1).astype(np.int64)
            boxes = np.count_nonzero(level[:, :1]) + np.count_nonzero(
                (np.diff(level) != 0) & (level[:, 1:] > 0)
            )
            if boxes <= MAX_OUTLINES or values.shape[1] <= 1:
                return values, edges, level
            values, edges = _halved(values, edges)

    def pointed(self, **given: Any) -> Any:
        """The grid that answers who points at a cell, with the values that are drawn; nothing of it is to be seen."""
        values, edges, _ = self.drawn
        scale = [[0, self.ends[0]], [1, self.ends[1]]]
        shown: dict[str, Any] = {"zmin": 0, "zmax": self.most, "colorscale": scale, "showscale": False}
        return go.Heatmap(z=values, x=edges, opacity=0, **{**shown, **given})

    def cells(self, **given: Any) -> list[Any]:
        """One filled trace for each colour: neighbours of one colour are joined. Under all of them lies a box for each
        stretch of a row that has values."""
        colours = between(*self.ends, LEVELS)
        values, edges, level = self.drawn
        under = runs(np.where(np.isnan(values), -1, 0))
        found = runs(np.where(level > 0, level, -1))
        traces = []
        for one in range(LEVELS):  # also the empty ones: what the page redraws in place keeps its traces
            boxes = tuple(part[found[3] == one] for part in found) if one else under
            meta = {"level": one}  # for the page, which shows several maps on one scale
            traces.append(self._boxes(boxes, edges, colours[one], {**given, "meta": meta}))
        return traces

    def _boxes(
        self, boxes: tuple[np.ndarray, ...], edges: np.ndarray, colour: str, given: dict[str, Any]
    ) -> Any:
        row, first, after, _ = boxes
        y0 = self.top + row - (1 - self.gap) / 2
        return filled((edges[first], edges[after], y0, y0 + 1 - self.gap), colour, **given)


def _halved(values: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two columns as one: the mean over the time that has values; a last one without neighbour stays."""
    starts = np.arange(0, values.shape[1], 2)
    time = np.where(np.isnan(values), 0, np.diff(edges))
    total = np.add.reduceat(np.nan_to_num(values) * time, starts, axis=1)
    time = np.add.reduceat(time, starts, axis=1)
    mean = np.divide(total, time, out=np.full_like(total, np.nan), where=time > 0)
    return mean.astype(values.dtype), edges[np.append(starts, values.shape[1])]
