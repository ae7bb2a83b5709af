"""The drawing that timeline and race share: jobs' rows on one time axis, at the level of detail that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from backend.figures import words
from backend.figures.base import TIME_BELOW_PX
from backend.figures.boxes import SHADES, Boxes, place, position
from backend.figures.draw import LABEL_SHARE, MAX_BARS, MAX_OUTLINES, bars, cells, outlines
from backend.figures.facts import JobFacts
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import ROW_HEIGHT, Row, height_of
from backend.figures.theme import COLOURS, colourscale
from backend.figures.why import waits_of
from engine.telemetry.events import Kind

Level = Literal["bars", "outlines", "cells"]
ROW_PX = 25
MAX_WAITS = 400
"""So many waits stay bars where nothing else does."""
MAX_LAYER_TICKS = 9
TICK_CHARACTER_PX, TICK_GAP_PX = 6.6, 16
SCALE_SHARE = 0.62
"""Of the drawing's width, for the palette with the layers' names."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One job's share of a scene."""

    job: JobFacts
    spans: np.ndarray
    """SPAN rows, by start."""
    rows: Sequence[Row]
    origin_ns: int
    """Where this job's time axis is 0."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What is visible and what the answer covers, in s on the scene's axis."""

    from_s: float
    to_s: float

    @property
    def covered(self) -> tuple[float, float]:
        """Three screen widths."""
        width = self.to_s - self.from_s
        return self.from_s - width, self.to_s + width


def paint(parts: Sequence[Part], view: View, request: FigureRequest) -> tuple[list[Any], Level, int]:
    """Traces of all parts' spans, the level of detail they were drawn at, and how many boxes that took."""
    count = sum(len(part.spans) for part in parts)
    if count <= MAX_BARS:
        placed = [place(p.spans, p.rows, len(p.job.layers), p.origin_ns) for p in parts]
        return _bars(parts, placed, view, request), "bars", sum(map(len, placed))
    pixel_ns = (view.to_s - view.from_s) * 1e9 / request.width
    merged = []
    offset = 0
    for part in parts:
        boxes = place(part.spans, part.rows, len(part.job.layers), part.origin_ns, merge_ns=pixel_ns)
        merged.append(_shifted(boxes, offset))
        offset += len(part.rows)
    joined = Boxes.join(merged)
    waits = _waits(parts, view, request)
    if len(joined) <= MAX_OUTLINES:
        return [*outlines(joined, request.theme), *waits], "outlines", len(joined)
    rows = [row for part in parts for row in part.rows]
    coarse = cells(joined, rows, view.covered, min(3 * request.width // 2, 4000))
    return [*outlines(coarse, request.theme), *waits], "cells", len(joined)


def _waits(parts: Sequence[Part], view: View, request: FigureRequest) -> list[Any]:
    """The longest waits of a drawing without bars, as bars on top: they can be pointed at and chosen."""
    chosen = []
    for part in parts:
        waits = waits_of(part.spans)
        waits = waits[np.argsort(waits["start"] - waits["end"], kind="stable")][: MAX_WAITS // len(parts)]
        chosen.append(replace(part, spans=waits[np.argsort(waits["start"], kind="stable")]))
    placed = [place(part.spans, part.rows, len(part.job.layers), part.origin_ns) for part in chosen]
    return _bars(chosen, placed, view, request)


def _bars(parts: Sequence[Part], placed: Sequence[Boxes], view: View, request: FigureRequest) -> list[Any]:
    hover, custom, label = [], [], []
    for i, (part, boxes) in enumerate(zip(parts, placed, strict=True)):
        spans = part.spans[boxes.source]
        wide = (boxes.x1 - boxes.x0 > LABEL_SHARE * (view.to_s - view.from_s)) & (
            boxes.y1 - boxes.y0 > ROW_HEIGHT * 0.5
        )
        hover.append(words.hover_texts(spans, part.job))
        custom.append(words.numbers(spans, i))
        label.append(words.labels(spans, wide & ~request.narrow, part.job))
    joined = Boxes.join(placed)
    return bars(joined, np.concatenate(hover), np.concatenate(custom), np.concatenate(label), request.theme)


def _shifted(boxes: Boxes, rows: int) -> Boxes:
    names = ("x0", "x1", "y0", "y1", "code", "source")
    return Boxes(**{name: getattr(boxes, name) for name in names}, row=boxes.row + rows)


def set_axes(figure: go.Figure, rows: Sequence[Row], view: View, bottom: float, top: float = 0.0) -> None:
    """Time across, rows down."""
    figure.update_xaxes(range=[view.from_s, view.to_s], tickformat="~s", ticksuffix="s", showgrid=True)
    figure.update_yaxes(
        range=[bottom + 0.15, top - 0.15],
        tickmode="array",
        tickvals=np.array([row.centre for row in rows]),
        ticktext=[row.label for row in rows],
        showgrid=False,
        fixedrange=True,
        ticks="",
    )
    figure.update_layout(
        bargap=0,
        barmode="overlay",
        hovermode="closest",
        uniformtext={"mode": "hide", "minsize": 9},
        margin={"b": TIME_BELOW_PX},
    )


def rules(
    x: np.ndarray, y0: np.ndarray, y1: np.ndarray, colour: str, *, width: float = 1, dash: str = "dot"
) -> Any:
    """Vertical lines at `x` (n, s) from `y0` to `y1` (n, rows), as one trace."""
    gap = np.full(len(x), np.nan)
    return go.Scatter(
        x=np.stack([x, x, gap], axis=1).ravel(),
        y=np.stack([y0, y1, gap], axis=1).ravel(),
        mode="lines",
        line={"color": colour, "width": width, "dash": dash},
        hoverinfo="skip",
        showlegend=False,
        name="steps",
    )


def add_key(
    figure: go.Figure, job: JobFacts | None, request: FigureRequest, spans: Sequence[np.ndarray]
) -> None:
    """The key of what is in SPAN rows: red for exposed waiting, and the palette with the job's layers along it (None:
    of unlike models)."""
    colours = COLOURS[request.theme]
    entries = [("exposed wait: nothing to compute until a version arrives", colours.wait)]
    if request.narrow:
        entries = [("exposed wait", colours.wait)]
    if any((part["layer"] < 0).any() for part in spans):
        entries.append(("belongs to no layer", colours.other))
    kinds = {int(kind) for part in spans for kind in np.unique(part["kind"])}
    named = ((Kind.SWAP_OUT, "swap out", colours.swap_out), (Kind.SWAP_IN, "swap in", colours.swap_in))
    again = (Kind.RECOMPUTE, "recompute", colours.again)
    entries += [(name, colour) for kind, name, colour in (*named, again) if kind in kinds]
    for name, colour in entries:
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="markers",
                name=name,
                hoverinfo="skip",
                marker={"color": colour, "size": 11, "symbol": "square"},
            )
        )
    if job is not None:
        add_layer_scale(figure, job, request)


def add_layer_scale(figure: go.Figure, job: JobFacts, request: FigureRequest) -> None:
    """The palette under the time axis, with the job's layers along it; nothing where they are not known."""
    layers = len(job.layers)
    if not layers:
        return
    share = 1.0 if request.narrow else SCALE_SHARE
    names = [job.fitting(layer, 9 if request.narrow else 24) for layer in range(layers)]
    most = int(share * (request.width - 150) / (max(map(len, names)) * TICK_CHARACTER_PX + TICK_GAP_PX))
    most = max(2, min(most, MAX_LAYER_TICKS, layers))
    chosen = np.unique(np.linspace(0, layers - 1, most).round().astype(int))
    figure.add_trace(
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            showlegend=False,
            hoverinfo="skip",
            name="layers",
            marker={
                "color": [0],
                "cmin": 0,
                "cmax": SHADES - 1,
                "colorscale": colourscale(request.theme),
                "showscale": True,
                "colorbar": {
                    "orientation": "h",
                    "thickness": 9,
                    "len": share,
                    "x": 0,
                    "xanchor": "left",
                    "y": 0,
                    "yref": "container",
                    "yanchor": "bottom",
                    "ypad": 4,
                    "xpad": 0,
                    "outlinewidth": 0,
                    "tickvals": np.array([position(int(i), layers) for i in chosen]),
                    "ticktext": [as_text(names[i]) for i in chosen],
                    "tickfont": {"size": 11, "color": COLOURS[request.theme].muted},
                    "ticks": "",
                    "tickangle": 0,
                },
            },
        )
    )


def scene_height(rows: Sequence[Row], *, bottom: float | None = None) -> int:
    """Pixels for the rows, the axis and the key."""
    return int((height_of(rows) if bottom is None else bottom) * ROW_PX) + 100
