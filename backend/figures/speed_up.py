"""Speed-up: this job's samples per second, its baseline's, and what linear scaling would give."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, notice, wrap
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed import compare, measure
from backend.figures.theme import COLOURS, ink
from engine.telemetry.definitions import SpeedUp

NAME_PX, NOTE_PX = 6.8, 6.2
"""Width of a letter of a bar's name, and of a note."""
NARROW_NAME = 16
"""So many letters of a job's name beside its bar on a phone."""
KINDS = {"strong": "equal global batch (strong scaling)", "weak": "equal batch per worker (weak scaling)"}


def speed_up_figure(source: Source, request: FigureRequest) -> go.Figure:
    """The comparison with the job's baseline; where it is not allowed, the reason instead."""
    job, revision = source.job, f"speed-up:{source.job.id}"
    baseline_id = request.baseline or job.baseline_id
    if baseline_id is None:
        text = "This job has no baseline: choose one, and its speed-up is shown here"
        return notice(request, revision=revision, text=text)
    baseline = source.other(baseline_id)
    ours, theirs = (measure(one).samples_per_s for one in (source, baseline))
    result = compare(source, baseline, ours, theirs)
    if result.value is None or not theirs:
        reasons = "; ".join(result.refused)
        return notice(request, revision=revision, text=f"Not comparable with {baseline.job.name}. {reasons}")
    return draw(job, baseline.job, result, theirs, request)


def draw(
    job: JobFacts, baseline: JobFacts, result: SpeedUp, baseline_samples_per_s: float, request: FigureRequest
) -> go.Figure:
    """The figure of an allowed comparison: three bars."""
    assert result.value is not None
    colours = COLOURS[request.theme]
    linear = job.workers / baseline.workers
    ours, theirs = (_short(one.name) if request.narrow else one.name for one in (job, baseline))
    bars = [
        (f"{theirs}<br>baseline, {_workers(baseline)}", 1.0, colours.other, False),
        (f"<b>{ours}</b><br>{_workers(job)}", result.value, colours.series[0], False),
        (f"linear<br>{_workers(job)}", linear, colours.muted, True),
    ]
    figure = go.Figure()
    for name, value, colour, reference in bars:
        rate = value * baseline_samples_per_s
        figure.add_trace(
            go.Bar(
                orientation="h",
                x=np.array([rate]),
                y=[name],
                showlegend=False,
                width=0.62,
                marker={
                    "color": "rgba(0,0,0,0)" if reference else colour,
                    "line": {"color": colour, "width": 1.5 if reference else 0},
                },
                # On a phone there is room for one of the two: the axis has the other.
                text=[f"{value:.2f} ×" if request.narrow else f"{value:.2f} × &nbsp;{rate:,.0f} samples/s"],
                textposition="auto",
                insidetextfont={"color": colours.text if reference else ink(colour)},
                textangle=0,
                hovertemplate=f"{rate:,.1f} samples/s, {value:.3f} ×<extra></extra>",
            )
        )
    notes = [f"At {KINDS[result.scaling]}.", *(f"Mind: {caveat}." for caveat in result.caveats)]
    # As wide as the bars: beside them stand their names.
    beside = NAME_PX * max(len(line) for name, *_ in bars for line in name.split("<br>"))
    lines = wrap(" ".join(notes), max(24, int((request.width - beside - 60) // NOTE_PX)))
    figure.add_annotation(
        text="<br>".join(lines),
        xref="paper",
        yref="paper",
        x=0,
        y=1,
        xanchor="left",
        yanchor="bottom",
        align="left",
        font={"color": colours.muted, "size": 12},
    )
    figure.update_xaxes(title_text="samples/s", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, fixedrange=True, ticks="")
    figure.update_layout(bargap=0.3, margin={"t": 14 + 16 * len(lines)})
    meta = {"speed_up": result.value, "scaling": result.scaling, "linear": linear}
    alt = (
        f"{result.value:.2f} times the samples per second of {baseline.name}, its baseline, "
        f"at {KINDS[result.scaling]}; linear scaling would be {linear:.2f}"
    )
    return finish(
        figure, request, revision=f"speed-up:{job.id}", height=202 + 16 * len(lines), alt=alt, meta=meta
    )


def _short(name: str) -> str:
    return name if len(name) <= NARROW_NAME else f"{name[: NARROW_NAME - 1]}…"


def _workers(job: JobFacts) -> str:
    return "1 worker" if job.workers == 1 else f"{job.workers} workers"
