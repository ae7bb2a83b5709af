"""The timeline from far: per step, how much of it each row was busy. Reads only rollups, which keep no layer's
computation: a layer that is lit up has a row of its own, how long it was waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, share_time_axis
from backend.figures.facts import JobFacts
from backend.figures.maps import Map
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.theme import COLOURS
from backend.figures.window import Window

ROWS = ("compute", "wait", "send", "receive")
GAP = 0.14
"""Between two rows, of a row's height."""
DIM = 0.3
"""Opacity of what is not of the layer that is lit up."""


def draw_rollup(
    job: JobFacts,
    shares: np.ndarray,
    window: Window,
    request: FigureRequest,
    meta: dict[str, Any],
    waits_for: tuple[np.ndarray, np.ndarray] | None = None,
) -> go.Figure:
    """Two maps over one another: busy rows in one colour, exposed waiting in red. `waits_for` (edges in ns,
    exposed ns of all workers) is of the layer that is lit up; the drawing stays as high as it is without."""
    colours = COLOURS[request.theme]
    parties = np.unique(shares["party"])
    labels, busy, waits = [], [], []
    edges = None
    for party in parties:
        own = shares[shares["party"] == party]
        edges = _edges(own) if edges is None or len(_edges(own)) < len(edges) else edges
    assert edges is not None
    columns = len(edges) - 1
    for party in parties:
        own = shares[shares["party"] == party][:columns]
        name = job.party(int(party))
        for i, row in enumerate(ROWS):
            value = np.clip(own[row], 0, 1).astype(np.float32)
            label = f"<b>{abbreviate(name) if request.narrow else name}</b> {row}" if i == 0 else row
            labels.append(label)
            empty = np.full(columns, np.nan, np.float32)
            busy.append(empty if row == "wait" else value)
            waits.append(value if row == "wait" else empty)
    x = (edges - window.origin_ns) / 1e9
    y = np.arange(len(labels), dtype=float)
    figure = go.Figure()
    for values, colour, name in ((busy, colours.compute, "busy"), (waits, colours.wait, "exposed wait")):
        template = f"{name} %{{z:.0%}} of the time at %{{x:.2f}} s<extra></extra>"
        grid = Map(np.stack(values), x, 1.0, (colours.idle, colour), gap=GAP)
        figure.add_trace(grid.pointed(y=y, name=name, hoverongaps=False, hovertemplate=template))
        figure.add_traces(grid.cells(name=name))
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="markers",
                name=f"{name}, share of the time",
                hoverinfo="skip",
                marker={"color": colour, "size": 11, "symbol": "square"},
            )
        )
    height = 90 + 22 * len(labels)
    if waits_for is not None and waits_for[1].size:
        figure.update_traces(opacity=DIM, selector={"fill": "toself"})
        labels.append(_light_up(figure, job, waits_for, window, request, row=len(labels)))
        y = np.arange(len(labels), dtype=float)
        meta = {**meta, "layer": request.layer}
    visible = [(window.from_ns - window.origin_ns) / 1e9, (window.to_ns - window.origin_ns) / 1e9]
    figure.update_xaxes(range=visible, tickformat="~s", ticksuffix="s", showgrid=False)
    figure.update_yaxes(
        tickmode="array",
        tickvals=y,
        ticktext=labels,
        autorange="reversed",
        showgrid=False,
        fixedrange=True,
        ticks="",
    )
    figure.update_layout(hovermode="closest")
    share_time_axis(figure, request)
    return finish(
        figure,
        request,
        revision=f"timeline:{job.id}:{window.origin_ns}",
        height=height,
        alt="; ".join(_words(job, shares, int(party)) for party in parties),
        meta=meta,
    )


def _light_up(
    figure: go.Figure,
    job: JobFacts,
    waits_for: tuple[np.ndarray, np.ndarray],
    window: Window,
    request: FigureRequest,
    *,
    row: int,
) -> str:
    """Draw the lit layer's row; answers its label."""
    assert request.layer is not None
    colours = COLOURS[request.theme]
    edges, exposed = waits_for
    share = exposed / max(job.workers, 1) / np.maximum(np.diff(edges), 1)
    largest = max(float(share.max()), 1e-3)
    grid = Map(
        share.astype(np.float32)[None],
        (edges - window.origin_ns) / 1e9,
        largest,
        (colours.idle, colours.wait),
        gap=GAP,
        top=row,
    )
    template = (
        f"waiting for {as_text(job.title(request.layer))} %{{z:.1%}} of the time, mean of the workers<br>"
    )
    template += f"the fullest colour is {largest:.1%}<extra></extra>"
    figure.add_trace(grid.pointed(y=np.array([row], float), name="layer", hovertemplate=template))
    figure.add_traces(grid.cells(name="layer"))
    if request.narrow:
        return as_text(job.fitting(request.layer, 10))
    return f"waits for <b>{as_text(job.fitting(request.layer, 11))}</b>"


def _words(job: JobFacts, shares: np.ndarray, party: int) -> str:
    own = shares[shares["party"] == party]
    compute, wait = (float(np.clip(own[row], 0, 1).mean()) for row in ("compute", "wait"))
    return f"{job.party(party)} computes {compute:.0%} of the time, exposed wait {wait:.0%}"


def _edges(own: np.ndarray) -> np.ndarray:
    """Edges of one worker's groups: each ends where the next one starts."""
    return np.append(own["start"], own["end"][-1]).astype(np.float64)
