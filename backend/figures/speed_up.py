"""Speed-up: this job's samples per second, its baseline's, and, where it has more or fewer workers, what linear scaling
would give; below it, how the speed-up came about over time. Both are read as they were stored."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from backend.called import apart
from backend.figures.base import finish, notice, wrap
from backend.figures.compared import Compared, shown, stored
from backend.figures.facts import JobFacts
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.theme import COLOURS, ink
from backend.rounding import SPEED_UP

NAME_PX, NOTE_PX = 6.8, 6.2
"""Width of a letter of a bar's name, and of a note."""
NARROW_NAME = 16
"""So many letters of a job's name beside its bar on a phone."""
KINDS = {"strong": "equal global batch (strong scaling)", "weak": "equal batch per worker (weak scaling)"}


BAR_PX, AXIS_PX, TIME_PX, BETWEEN_PX = 50, 52, 170, 62
"""Heights of a bar, of their axis, of what happened over time, and of the space between the two."""
FEWEST = 2
"""Measurements that are drawn over time."""


def speed_up_figure(source: Source, request: FigureRequest) -> go.Figure:
    """The comparison with the job's baseline; where it is not allowed, the reason instead."""
    job, revision = source.job, f"speed-up:{source.job.id}"
    found = shown(source, request.baseline)
    if found is None:
        text = "This job has no baseline: choose one, and its speed-up is shown here"
        return notice(request, revision=revision, text=text)
    if found.result.value is None:
        missing = "No speed-up over" if found.result.comparable else "Not comparable with"
        text = f"{missing} {_names(job, found)[1]}. {'; '.join(found.result.refused)}"
        return notice(request, revision=revision, text=text)
    past = [row for row in stored(source) if row.baseline_id == found.baseline_id]
    return draw(job, found, [row for row in past if row.result.value is not None], request)


def draw(job: JobFacts, found: Compared, past: Sequence[Compared], request: FigureRequest) -> go.Figure:
    """The figure of an allowed comparison: its bars, and what was measured before."""
    result, theirs = found.result, found.baseline_samples_per_s
    assert result.value is not None
    assert theirs is not None
    linear = None if job.workers == found.baseline_workers else job.workers / found.baseline_workers
    figure = go.Figure()
    width = _bars(figure, job, found, linear, request)
    notes = [f"At {KINDS[result.scaling]}."]
    if result.caveats:
        notes.append(f"Mind: {'; '.join(result.caveats)}.")
    # As wide as the bars: beside them stand their names.
    lines = wrap(" ".join(notes), max(24, int((request.width - width - 60) // NOTE_PX)))
    figure.add_annotation(
        text="<br>".join(lines),
        xref="paper",
        yref="paper",
        x=0,
        y=1,
        xanchor="left",
        yanchor="bottom",
        align="left",
        font={"color": COLOURS[request.theme].muted, "size": 12},
    )
    figure.update_xaxes(title_text="samples/s", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, fixedrange=True, ticks="")
    figure.update_layout(bargap=0.3, margin={"t": 14 + 16 * len(lines)}, showlegend=False)
    bars = height = AXIS_PX + BAR_PX * len(figure.data)
    if len(past) >= FEWEST:
        height += BETWEEN_PX + TIME_PX
        _over_time(figure, past, bars, request)
    meta = {"speed_up": result.value, "scaling": result.scaling, "linear": linear}
    alt = (
        f"{result.value:.2f} times the samples per second of {_names(job, found)[1]}, its baseline{_sure(found)}, "
        f"at {KINDS[result.scaling]}" + ("" if linear is None else f"; linear scaling would be {linear:.2f}")
    )
    return finish(
        figure, request, revision=f"speed-up:{job.id}", height=height + 16 * len(lines), alt=alt, meta=meta
    )


def _bars(
    figure: go.Figure, job: JobFacts, found: Compared, linear: float | None, request: FigureRequest
) -> float:
    """A bar each; answers the width of their names, in pixels."""
    assert found.result.value is not None
    assert found.baseline_samples_per_s is not None
    colours, value = COLOURS[request.theme], found.result.value
    # On a phone there is no room for ids: below the one stands that it is the baseline.
    names = (_short(job.name), _short(found.baseline_name)) if request.narrow else _names(job, found)
    ours, theirs = map(as_text, names)
    here, there = _workers(job.workers), _workers(found.baseline_workers)
    bars = [
        (f"{theirs}<br>baseline, {there}", 1.0, colours.other, False),
        (f"<b>{ours}</b><br>{here}", value, colours.series[0], False),
    ]
    if linear is not None:
        bars.append((f"linear<br>{here}", linear, colours.muted, True))
    for name, times, colour, reference in bars:
        rate = times * found.baseline_samples_per_s
        sure = _sure(found) if times == value and not reference else ""
        said = SPEED_UP.format(times)
        figure.add_trace(
            go.Bar(
                orientation="h",
                x=np.array([rate]),
                y=[name],
                width=0.62,
                marker={
                    "color": "rgba(0,0,0,0)" if reference else colour,
                    "line": {"color": colour, "width": 1.5 if reference else 0},
                },
                # On a phone there is room for one of the two: the axis has the other.
                text=[said if request.narrow else f"{said} &nbsp;{rate:,.0f} samples/s"],
                textposition="auto",
                insidetextfont={"color": colours.text if reference else ink(colour)},
                textangle=0,
                hovertemplate=f"{rate:,.1f} samples/s, {said}{sure}<extra></extra>",
            )
        )
    return NAME_PX * max(len(html.unescape(line)) for name, *_ in bars for line in name.split("<br>"))


def _over_time(figure: go.Figure, past: Sequence[Compared], bars_px: int, request: FigureRequest) -> None:
    """Below the bars: every stored value, with its interval, over the time since the attempt began."""
    colours = COLOURS[request.theme]
    whole = bars_px + BETWEEN_PX + TIME_PX
    figure.update_layout(yaxis_domain=[(BETWEEN_PX + TIME_PX) / whole, 1.0])
    time = np.array([row.at_ns / 1e9 for row in past])
    value = np.array([row.result.value for row in past], float)
    sure = [row for row in past if row.result.interval is not None]
    if sure:
        x = np.array([row.at_ns / 1e9 for row in sure])
        low, high = np.array([row.result.interval for row in sure], float).T
        figure.add_trace(
            go.Scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([high, low[::-1]]),
                fill="toself",
                mode="none",
                fillcolor=colours.idle,
                hoverinfo="skip",
                xaxis="x2",
                yaxis="y2",
            )
        )
    figure.add_trace(
        go.Scatter(
            x=time,
            y=value,
            mode="lines+markers",
            line={"width": 2, "color": colours.series[0]},
            marker={"size": 5},
            text=[f"{_sure(row)}, steps {row.steps[0]} to {row.steps[1]}" for row in past],
            hovertemplate="%{y:.2f}x%{text}<extra></extra>",
            xaxis="x2",
            yaxis="y2",
        )
    )
    figure.add_shape(
        type="line",
        xref="x2 domain",
        yref="y2",
        x0=0,
        x1=1,
        y0=1,
        y1=1,
        line={"color": colours.muted, "dash": "dot", "width": 1},
    )
    figure.update_layout(
        xaxis={"anchor": "y"},
        xaxis2={"anchor": "y2", "title_text": "time", "ticksuffix": " s"},
        yaxis2={
            "anchor": "x2",
            "domain": [0.0, TIME_PX / whole],
            "title_text": "speed-up",
            "ticksuffix": "x",
            "autorange": True,
            "fixedrange": False,
            "showgrid": True,
        },
    )


def _sure(found: Compared) -> str:
    """`, with 95 % confidence 1.48 to 1.55`; empty where too little was measured to tell."""
    if found.result.interval is None:
        return ""
    low, high = found.result.interval
    return f", with 95 % confidence {low:.2f} to {high:.2f}"


def _names(job: JobFacts, found: Compared) -> tuple[str, str]:
    """The job's and its baseline's."""
    ours, theirs = apart([job.name, found.baseline_name], [job.id, found.baseline_id])
    return ours, theirs


def _short(name: str) -> str:
    return name if len(name) <= NARROW_NAME else f"{name[: NARROW_NAME - 1]}…"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
