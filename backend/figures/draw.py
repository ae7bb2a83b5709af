"""Three levels of detail: bars with hover, filled outlines of boxes, and of cells.

Measured by drawing in a browser with software rendering: 20,000 bars take 1.1 s and pan at 115 ms; 5,000
filled
outlines 0.16 s and 10 ms. So: bars while there are few, one filled trace per colour above, cells beyond.
Cells are no heat map: plotly.js would make each a new picture of 4 MB, which a browser without GPU keeps, decoded,
long after it was replaced.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures.boxes import AGAIN, CODES, OTHER, SHADES, SWAP_IN, SWAP_OUT, WAIT, Boxes
from backend.figures.request import Theme
from backend.figures.rows import ROW_HEIGHT, Row
from backend.figures.theme import COLOURS, palette

MAX_BARS = 3_000
MAX_OUTLINES = 5_000
LABEL_SHARE = 0.035
"""A bar's label is sent when the bar takes at least this share of the visible width."""


def code_colours(theme: Theme) -> list[str]:
    """The colour of each code of `boxes.py`."""
    own = COLOURS[theme]
    return [*palette(theme, SHADES), own.wait, own.other, own.swap_out, own.swap_in, own.again]


def bars(
    boxes: Boxes, hover: np.ndarray, customdata: np.ndarray, labels: np.ndarray, theme: Theme
) -> list[Any]:
    """One bar per box. `hover` (n strings) is shown as it is; `customdata` (n, k) is for the page; `labels`
    (n strings) are written inside where they fit."""
    colours = np.array(code_colours(theme))
    traces = []
    for wait in (False, True):
        mine = (boxes.code == WAIT) == wait
        if not mine.any():
            continue
        # Names, not codes with a scale: plotly.js takes a bar's code for its colour, and warns of each at 0.4 ms.
        colour = COLOURS[theme].wait if wait else colours[boxes.code[mine]]
        traces.append(
            go.Bar(
                orientation="h",
                base=typed(single(boxes.x0[mine])),
                x=single(boxes.x1[mine] - boxes.x0[mine]),
                y=((boxes.y0 + boxes.y1) / 2)[mine].astype(np.float32),
                width=(boxes.y1 - boxes.y0)[mine].astype(np.float32),
                marker={"color": colour, "line": {"width": 0}},
                customdata=customdata[mine],
                hovertext=hover[mine],
                hovertemplate="%{hovertext}<extra></extra>",
                text=labels[mine],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                insidetextfont={"size": 11},
                name="exposed wait" if wait else "layers",
                showlegend=False,
            )
        )
    return traces


def outlines(boxes: Boxes, theme: Theme) -> list[Any]:
    """One filled trace per colour, its boxes separated by gaps; without hover."""
    colours = code_colours(theme)
    traces = []
    for code in [*range(SHADES), OTHER, AGAIN, SWAP_OUT, SWAP_IN, WAIT]:  # waiting last: on top
        mine = boxes.code == code
        if not mine.any():
            continue
        x0, x1, y0, y1 = (column[mine] for column in (boxes.x0, boxes.x1, boxes.y0, boxes.y1))
        name = "exposed wait" if code == WAIT else f"colour {code}"
        traces.append(filled((x0, x1, y0, y1), colours[code], name=name, meta={"code": code}))
    return traces


def filled(edges: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], colour: str, **given: Any) -> Any:
    """One filled trace of many boxes, separated by gaps; without hover. `edges`: x0, x1, y0, y1 of each."""
    x0, x1, y0, y1 = edges
    gap = np.full(len(x0), np.nan)
    return go.Scatter(
        x=single(np.stack([x0, x1, x1, x0, gap], axis=1).ravel()),
        y=np.stack([y0, y0, y1, y1, gap], axis=1).ravel().astype(np.float32),
        mode="none",  # a line would be an element for each box, also without width
        fill="toself",
        fillcolor=colour,
        hoverinfo="skip",
        showlegend=False,
        **given,
    )


def cells(boxes: Boxes, rows: Sequence[Row], x_range: tuple[float, float], columns: int) -> Boxes:
    """At most MAX_OUTLINES boxes (and one for each row) in place of any number: `x_range` (s) in at most `columns`
    columns, each cell in the colour that takes most of it and empty where less than a twentieth is taken, neighbours
    of one colour joined."""
    tops = np.array([row.y for row in rows])
    while True:
        x_from, x_to = x_range
        width = (x_to - x_from) / columns
        time = cell_time(boxes, len(rows), x_range, columns)
        code = np.where(time.sum(axis=2) < width / 20, -1, time.argmax(axis=2))
        row, first, after, code = runs(code)
        if len(row) <= MAX_OUTLINES or columns == 1:
            break
        columns //= 2
    return Boxes(
        x0=x_from + first * width,
        x1=x_from + after * width,
        y0=tops[row],
        y1=tops[row] + ROW_HEIGHT,
        code=code.astype(np.uint8),
        row=row,
        source=np.full(len(row), -1),
    )


def runs(code: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`(row, first column, column after the last, code)` of neighbours of one row with the same code from 0 on."""
    new = np.ones(code.shape, bool)
    new[:, 1:] = code[:, 1:] != code[:, :-1]
    row, first = np.nonzero(new)
    after = np.append(first, 0)[1:]
    after[after == 0] = code.shape[1]  # the next one begins another row
    codes = code[row, first]
    taken = codes >= 0
    return row[taken], first[taken], after[taken], codes[taken]


def cell_time(boxes: Boxes, rows: int, x_range: tuple[float, float], columns: int) -> np.ndarray:
    """(rows, columns, CODES): s that each colour takes of each cell."""
    x_from, x_to = x_range
    width = (x_to - x_from) / columns
    inside = (boxes.x1 > x_from) & (boxes.x0 < x_to)
    start = np.clip((boxes.x0[inside] - x_from) / width, 0, columns)
    end = np.clip((boxes.x1[inside] - x_from) / width, 0, columns)
    first = np.minimum(start.astype(np.int64), columns - 1)
    last = np.minimum(np.maximum(np.ceil(end).astype(np.int64) - 1, first), columns - 1)
    count = last - first + 1
    which = np.repeat(np.arange(len(start)), count)
    column = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    taken = np.minimum(end[which], column + 1) - np.maximum(start[which], column)
    cell = (boxes.row[inside][which] * columns + column) * CODES + boxes.code[inside][which]
    total = np.bincount(cell, weights=np.maximum(taken, 0) * width, minlength=rows * columns * CODES)
    return total.reshape(rows, columns, CODES)


def typed(values: np.ndarray) -> dict[str, str]:
    """A column in Plotly's typed-array notation, for the few attributes that plotly.py does not convert
    itself."""
    return {"dtype": f"f{values.itemsize}", "bdata": base64.b64encode(values.tobytes()).decode()}


def single(values: np.ndarray) -> np.ndarray:
    """Seconds in single precision where that keeps them to a microsecond, else in double."""
    largest = np.nanmax(np.abs(values), initial=0.0)
    return values.astype(np.float32) if largest < 8 else values
