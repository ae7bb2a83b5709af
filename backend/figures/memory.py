"""Memory: what every worker holds of the host's and of its device's, over the steps."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, notice
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from engine.plan.units_of_measure import format_bytes
from engine.telemetry.memory import MEASURES, RESIDENT, series

MAX_POINTS = 500
"""Of one line; of several samples the largest is drawn."""
MOST_SAID = 8
"""Samples that are said one by one."""


def memory(source: Source, request: FigureRequest) -> go.Figure:
    """Resident set and device memory of every worker, sampled once a second."""
    lines = {
        (party, measure): rows
        for party in range(source.job.workers)
        for measure in MEASURES
        if len(rows := source.metric(series(measure, source.job.party(party))))
    }
    return draw(source.job, lines, request)


def draw(job: JobFacts, lines: dict[tuple[int, str], np.ndarray], request: FigureRequest) -> go.Figure:
    """The figure of METRIC_ROW by party and measure."""
    revision = f"memory:{job.id}"
    if not lines:
        return notice(request, revision=revision, text="No memory was recorded of this job")
    if all(len(rows) == 1 for rows in lines.values()):
        return notice(request, revision=revision, text=_once(job, lines))
    colours = COLOURS[request.theme]
    figure = go.Figure()
    said = []
    both = len({measure for _, measure in lines}) > 1
    largest = max(float(rows["value"].max()) for rows in lines.values())
    unit, size = ("GiB", 2**30) if largest >= 2**30 else ("MiB", 2**20)
    for (party, measure), rows in lines.items():
        resident = measure == RESIDENT
        name = abbreviate(job.party(party)) if request.narrow else job.party(party)
        where = ("host" if resident else "device") if both else ""
        step, value = highest(rows)
        figure.add_trace(
            go.Scatter(
                x=step,
                y=value / size,
                mode="lines+markers" if len(step) == 1 else "lines",
                name=f"{name} {where}".strip(),
                line={
                    "width": 2,
                    "color": colours.series[party % len(colours.series)],
                    "dash": "solid" if resident else "dash",
                },
                hovertemplate=f"%{{y:.4g}} {unit}",
            )
        )
        said.append(f"{job.party(party)} {where or 'host'} {format_bytes(float(value[-1]))}")
    figure.update_xaxes(title_text="step")
    figure.update_yaxes(title_text=f"{unit} held", rangemode="tozero")
    figure.update_layout(hovermode="x unified", showlegend=len(lines) > 1)
    return finish(figure, request, revision=revision, height=280, alt="at the end " + ", ".join(said))


def _once(job: JobFacts, lines: dict[tuple[int, str], np.ndarray]) -> str:
    """What a job that was too short for a line held: one sample is a number."""
    held = [
        f"{job.party(party)} {format_bytes(float(rows['value'][0]))}"
        f"{' of the host' if measure == RESIDENT else ' of its device'}, at step {int(rows['step'][0])}"
        for (party, measure), rows in lines.items()
    ]
    more = f"; and {len(held) - MOST_SAID} more" if len(held) > MOST_SAID else ""
    return f"Memory was sampled once: {'; '.join(held[:MOST_SAID])}{more}"


def highest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(steps, largest values) of METRIC_ROW in at most MAX_POINTS groups of neighbouring samples."""
    starts = np.arange(0, len(rows), -(-len(rows) // MAX_POINTS))
    return rows["step"][starts], np.maximum.reduceat(rows["value"], starts)
