"""Drift: over time, how stale every worker's contributions were, and how many steps each was ahead of the slowest."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backend.figures.base import finish, notice
from backend.figures.drifted import Course
from backend.figures.facts import JobFacts
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.source import Source
from backend.figures.staleness import NOTHING, TOGETHER
from backend.figures.theme import COLOURS, palette

MOST_WINDOWS = 240
MOST_LINES = 16
"""Workers that are drawn one by one: those that were ahead, and those that were behind, by most."""


def drift(source: Source, request: FigureRequest) -> go.Figure:
    """Staleness above, who is ahead below, over the same time."""
    job = source.job
    course = source.course(MOST_WINDOWS)
    if not len(course.most):
        text = NOTHING if source.drifts() else TOGETHER
        return notice(request, revision=f"drift:{job.id}", text=text)
    return draw(job, course, request)


def draw(job: JobFacts, course: Course, request: FigureRequest) -> go.Figure:
    """The figure of a course."""
    colours = COLOURS[request.theme]
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.14,
        subplot_titles=["<b>staleness</b>, mean of a window", "<b>steps ahead</b> of the slowest worker"],
    )
    for note in figure.layout.annotations:
        note.update(x=0, xanchor="left", font={"size": 12, "color": colours.text})
    edges, ahead = course.edges_ns / 1e9, course.ahead
    moments = course.moments_ns / 1e9
    chosen = shown(course)
    series = colours.series if len(chosen) <= len(colours.series) else palette(request.theme, len(chosen))
    for worker, colour in zip(chosen, series, strict=False):
        name = as_text(abbreviate(job.party(worker)) if request.narrow else job.party(worker))
        line, common = {"width": 2, "color": colour}, {"name": name, "legendgroup": name}
        for trace in _windows(edges, course.mean[worker], line, "%{y:.3g}", **common):
            figure.add_trace(trace, row=1, col=1)
        figure.add_trace(
            go.Scatter(
                x=moments,
                y=ahead[worker],
                showlegend=False,
                hovertemplate="%{y:,} ahead",
                mode="lines",
                line={**line, "shape": "hv"},
                **common,
            ),
            row=2,
            col=1,
        )
    highest = np.where(course.most < 0, np.nan, course.most)
    dotted = {"width": 1, "color": colours.muted, "dash": "dot"}
    name = "highest of all"
    for trace in _windows(edges, highest, dotted, "%{y:,}", name=name, legendgroup=name):
        figure.add_trace(trace, row=1, col=1)
    figure.update_xaxes(tickformat="~s", ticksuffix="s")
    figure.update_yaxes(rangemode="tozero", tickformat="~g")
    figure.update_yaxes(title_text="updates", row=1, col=1)
    figure.update_yaxes(title_text="steps", row=2, col=1)
    figure.update_layout(hovermode="x unified", showlegend=True, margin={"t": 60})
    figure.update_layout(legend={"y": 1.06})
    meta = {"panels": [{"y": "y", "title": "staleness"}, {"y": "y2", "title": "steps ahead"}]}
    return finish(figure, request, revision=f"drift:{job.id}", height=460, alt=_words(job, course), meta=meta)


def _windows(
    edges: np.ndarray, values: np.ndarray, line: dict[str, Any], hovertemplate: str, **common: str
) -> tuple[go.Scatter, go.Scatter]:
    """What holds for whole windows: a step as wide as each, and what is read by who points at its middle, and by files.
    A line from middle to middle would show values that nobody measured."""
    ends = np.column_stack([edges[:-1], edges[1:]]).ravel()
    drawn = go.Scatter(x=ends, y=np.repeat(values, 2), mode="lines", line=line, hoverinfo="skip", **common)
    middles = (edges[:-1] + edges[1:]) / 2
    read = go.Scatter(
        x=middles,
        y=values,
        mode="markers",
        marker={"opacity": 0, "color": line["color"]},
        showlegend=False,
        hovertemplate=hovertemplate,
        **common,
    )
    return drawn, read


def shown(course: Course) -> list[int]:
    """The workers that are drawn: all, or those whose lead was highest and lowest on average."""
    workers = len(course.steps)
    if workers <= MOST_LINES:
        return list(range(workers))
    by_lead = np.argsort(-course.ahead.mean(axis=1), kind="stable").tolist()
    half = MOST_LINES // 2
    return sorted([*by_lead[:half], *by_lead[-half:]])


def _words(job: JobFacts, course: Course) -> str:
    lead, workers = course.most_ahead, len(course.most_ahead)
    first = int(lead.argmax())
    most = int(lead[first])
    said = f"staleness was at most {int(course.most.max()):,}"
    if most > 0:
        said += (
            f"; {job.party(first)} was up to {most:,} {'step' if most == 1 else 'steps'} ahead of the slowest"
        )
    elif workers > 1:
        said += "; nobody was ahead of anybody"
    return said
