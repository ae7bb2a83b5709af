"""The largest batch over a worker's memory, and how fast passes of it are, each way to treat activations: predicted."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from backend.figures.base import finish
from backend.figures.compare import DASHES
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.theme import COLOURS
from engine.plan.largest import LargestCurve
from engine.plan.units_of_measure import format_bytes

TITLES = ("<b>largest batch</b>, samples of a pass", "<b>samples/s</b> of a worker that has it")


def largest(curve: LargestCurve, request: FigureRequest) -> go.Figure:
    """Two panels over one axis of memory. There is a line for each way that has a batch."""
    colours = COLOURS[request.theme]
    unit, size = ("GiB", 2**30) if curve.memory >= 2**30 else ("MiB", 2**20)
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.16, subplot_titles=list(TITLES)
    )
    for note in figure.layout.annotations:
        note.update(x=0, xanchor="left", font={"size": 12, "color": colours.text})
    said = []
    for place, line in enumerate(curve.lines):
        at = place % len(colours.series)
        held = np.array(line.memory) / size
        style = {"width": 2, "color": colours.series[at], "dash": DASHES[place % len(DASHES)]}
        common = {"name": as_text(line.way), "legendgroup": line.way, "mode": "lines+markers", "line": style}
        figure.add_trace(
            go.Scatter(x=held, y=np.array(line.samples), hovertemplate="%{y:,}", **common), row=1, col=1
        )
        held_by = format_bytes(line.memory[-1])
        said.append(f"{line.way}: {line.samples[-1]:,} samples in {held_by}{_rate(line.samples_per_s[-1])}")
        rates = np.array([np.nan if each is None else each for each in line.samples_per_s])
        if not np.isnan(rates).all():
            figure.add_trace(
                go.Scatter(x=held, y=rates, hovertemplate="%{y:.4g}", showlegend=False, **common),
                row=2,
                col=1,
            )
    figure.update_xaxes(rangemode="tozero", ticksuffix=f" {unit}")
    figure.update_xaxes(title_text="memory that a worker has", row=2, col=1)
    figure.update_yaxes(rangemode="tozero", tickformat="~s")
    figure.update_yaxes(title_text="samples", row=1, col=1)
    figure.update_yaxes(title_text="samples/s", row=2, col=1)
    figure.update_layout(hovermode="closest", showlegend=True, margin={"t": 60}, legend={"y": 1.08})
    alt = f"predicted, times from {curve.rates}; {'; '.join(said)}"
    return finish(figure, request, revision=f"largest:{curve.memory}", height=460, alt=alt)


def _rate(samples_per_s: float | None) -> str:
    return "" if samples_per_s is None else f", {samples_per_s:,.4g} a second"
