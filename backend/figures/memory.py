"""Memory: what every worker holds of the host's and of its device's, over the steps, beside what was predicted."""

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
from engine.telemetry.memory import (
    ALLOCATED,
    ALLOCATED_PEAK,
    DEVICE,
    MEASURES,
    RESIDENT,
    RESIDENT_PEAK,
    TRANSIT,
    series,
)

MAX_POINTS = 500
"""Of one line; of several samples the largest is drawn."""
MOST_SAID = 8
"""Samples that are said one by one."""
WORDS = {
    RESIDENT: "host",
    RESIDENT_PEAK: "host, peak",
    DEVICE: "device, kept",
    ALLOCATED: "device",
    ALLOCATED_PEAK: "device, peak",
    TRANSIT: "in transit",
}
"""In the key."""
DASHES = {
    RESIDENT: "solid",
    RESIDENT_PEAK: "dot",
    DEVICE: "dash",
    ALLOCATED: "solid",
    ALLOCATED_PEAK: "dot",
    TRANSIT: "dashdot",
}
Lines = dict[tuple[int, str], np.ndarray]
"""METRIC_ROW by party and measure."""


def memory(source: Source, request: FigureRequest) -> go.Figure:
    """What every worker holds, sampled once a second."""
    lines = {
        (party, measure): rows
        for party in range(source.job.workers)
        for measure in MEASURES
        if len(rows := source.metric(series(measure, source.job.party(party))))
    }
    return draw(source.job, lines, request)


def draw(job: JobFacts, lines: Lines, request: FigureRequest) -> go.Figure:
    """The figure of these samples, and of the prediction that the request brings."""
    revision = f"memory:{job.id}"
    if not lines:
        return notice(request, revision=revision, text="No memory was recorded of this job")
    if all(len(rows) == 1 for rows in lines.values()):
        return notice(request, revision=revision, text=_once(job, lines))
    colours = COLOURS[request.theme]
    figure = go.Figure()
    said = []
    expected = _expected(lines, request)
    largest = max([*(float(rows["value"].max()) for rows in lines.values()), expected or 0])
    unit, size = ("GiB", 2**30) if largest >= 2**30 else ("MiB", 2**20)
    several = len({measure for _, measure in lines}) > 1
    on_device = any(measure == ALLOCATED for _, measure in lines)
    for (party, measure), rows in lines.items():
        name = abbreviate(job.party(party)) if request.narrow else job.party(party)
        step, value = highest(rows)
        host_beside = on_device and measure in (RESIDENT, RESIDENT_PEAK)
        figure.add_trace(
            go.Scatter(
                x=step,
                y=value / size,
                mode="lines+markers" if len(step) == 1 else "lines",
                name=f"{name} {WORDS[measure]}" if several else name,
                line={
                    "width": 2 if measure in (RESIDENT, ALLOCATED) else 1.5,
                    "color": colours.series[(party + host_beside * 3) % len(colours.series)],
                    "dash": DASHES[measure],
                },
                hovertemplate=f"%{{y:.4g}} {unit}",
            )
        )
        if measure in (RESIDENT, ALLOCATED):
            said.append(f"{job.party(party)} {WORDS[measure]} {format_bytes(float(value[-1]))}")
    if expected is not None:
        _add_expected(figure, lines, expected / size, unit, request)
        said.append(f"predicted peak {format_bytes(expected)}")
    figure.update_xaxes(title_text="step")
    figure.update_yaxes(title_text=f"{unit} held", rangemode="tozero")
    figure.update_layout(hovermode="x unified", showlegend=len(lines) > 1 or expected is not None)
    return finish(figure, request, revision=revision, height=280, alt="at the end " + ", ".join(said))


def _expected(lines: Lines, request: FigureRequest) -> float | None:
    """The predicted peak as the host's kernel would count it: what worker 0 held before it had a model, which its first
    sample says, and the tensors that are predicted."""
    first = lines.get((0, RESIDENT))
    if request.predicted is None or first is None:
        return None
    return float(first["value"][0]) + request.predicted


def _add_expected(figure: go.Figure, lines: Lines, value: float, unit: str, request: FigureRequest) -> None:
    steps = np.concatenate([rows["step"] for rows in lines.values()])
    figure.add_trace(
        go.Scatter(
            x=np.array([steps.min(), steps.max()]),
            y=np.array([value, value]),
            mode="lines",
            name="predicted peak"
            if request.narrow
            else "predicted peak, on top of the first sample of worker 0",
            line={"width": 2, "color": COLOURS[request.theme].rate, "dash": "longdash"},
            hovertemplate=f"%{{y:.4g}} {unit}",
        )
    )


def _once(job: JobFacts, lines: Lines) -> str:
    """What a job that was too short for a line held: one sample is a number."""
    whose = {RESIDENT: "of the host", ALLOCATED: "of its device"}
    held = [
        f"{job.party(party)} {format_bytes(float(rows['value'][0]))} {whose[measure]},"
        f" at step {int(rows['step'][0])}"
        for (party, measure), rows in lines.items()
        if measure in whose
    ]
    more = f"; and {len(held) - MOST_SAID} more" if len(held) > MOST_SAID else ""
    return f"Memory was sampled once: {'; '.join(held[:MOST_SAID])}{more}"


def highest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(steps, largest values) of METRIC_ROW in at most MAX_POINTS groups of neighbouring samples."""
    starts = np.arange(0, len(rows), -(-len(rows) // MAX_POINTS))
    return rows["step"][starts], np.maximum.reduceat(rows["value"], starts)
