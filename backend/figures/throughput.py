"""Throughput: samples per second of the whole job and, below it, how long an iteration takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backend.figures.base import finish, format_ms, notice
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed import measure
from backend.figures.theme import COLOURS

MAX_POINTS = 1_000
HEADROOM = 3.0
"""An axis ends at this multiple of what is usual: neither one pause (an evaluation) nor the step after it, which finds
everything there already, may flatten everything else."""


def throughput(source: Source, request: FigureRequest) -> go.Figure:
    """Samples per second and iteration time (the slowest worker's) by step."""
    return draw(source.job, source.progress(MAX_POINTS), measure(source).iteration_ns, request)


def draw(job: JobFacts, progress: np.ndarray, median_ns: float | None, request: FigureRequest) -> go.Figure:
    """The figure of PROGRESS_ROW, with a line at the job's iteration time where that is known."""
    progress = progress[np.isfinite(progress["iteration"])]
    revision = f"throughput:{job.id}"
    if not len(progress):
        return notice(request, revision=revision, text=job.without("throughput", "second step", "started"))
    colours = COLOURS[request.theme]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09)
    steps, rate, ms = progress["step"], progress["samples_per_s"], progress["iteration"] / 1e6
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=rate,
            mode="lines",
            name="samples/s",
            line={"width": 2, "color": colours.series[0]},
            hovertemplate="%{y:,.4g} samples/s<extra></extra>",
        ),
        row=1,
        col=1,
    )
    if (progress["iteration_max"] > progress["iteration_min"]).any():
        low, high = progress["iteration_min"] / 1e6, progress["iteration_max"] / 1e6
        figure.add_trace(
            go.Scatter(
                x=np.concatenate([steps, steps[::-1]]),
                y=np.concatenate([high, low[::-1]]),
                fill="toself",
                mode="none",
                fillcolor=colours.idle,
                hoverinfo="skip",
                name="fastest to slowest",
            ),
            row=2,
            col=1,
        )
    figure.add_trace(
        go.Scatter(
            x=steps,
            y=ms,
            mode="lines",
            name="iteration",
            line={"width": 2, "color": colours.series[1]},
            hovertemplate="%{y:.4g} ms<extra></extra>",
        ),
        row=2,
        col=1,
    )
    usual = float(np.median(ms)) if median_ns is None else median_ns / 1e6
    if median_ns is not None:
        figure.add_hline(y=usual, line={"color": colours.muted, "width": 1, "dash": "dot"}, row=2, col=1)
        # Above the panel: within it there is no place that the lines do not reach.
        figure.add_annotation(
            xref="x2 domain",
            yref="y2 domain",
            x=1,
            y=1,
            xanchor="right",
            yanchor="bottom",
            text=f"dotted: median {format_ms(median_ns)}",
            font={"color": colours.text, "size": 12},
        )
    figure.update_yaxes(title_text="samples/s", range=rate_range([rate]), row=1, col=1)
    top = min(float(progress["iteration_max"].max()) / 1e6, HEADROOM * usual)
    figure.update_yaxes(title_text="iteration", ticksuffix=" ms", range=[0, top * 1.08], row=2, col=1)
    figure.update_xaxes(title_text="step", row=2, col=1)
    figure.update_layout(hovermode="x unified", showlegend=False)
    alt = f"{rate.min():,.4g} to {rate.max():,.4g} samples/s, median iteration {format_ms(usual * 1e6)}"
    return finish(figure, request, revision=revision, height=400, alt=alt)


def rate_range(rates: Sequence[np.ndarray]) -> list[float]:
    """Of an axis for curves (n) each of samples per second, none of them empty."""
    usual = max(float(np.median(rate)) for rate in rates)
    return [0.0, 1.05 * min(max(float(rate.max()) for rate in rates), HEADROOM * usual)]
