"""Compare: one measurement of several jobs, over steps, samples, bytes or time.

Steps and samples are what the jobs trained on, of each worker what it made; bytes are those that their links sent until
the step's end, counted by the interfaces where these were sampled, else by the layers' messages; time counts from each
job's first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from sqlalchemy.orm import Session

from backend.figures.base import finish, notice, say_labels
from backend.figures.coinciding import say_coinciding
from backend.figures.loss import SMOOTH_SHARE, smooth
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.several import labels_of, names_of
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from engine.telemetry.events import ALL_LAYERS, BIN_NS, LEVEL_FACTOR, LEVELS, Direction

By = Literal["step", "samples", "bytes", "time"]
What = Literal["loss", "accuracy", "throughput"]
MAX_POINTS = 600
"""Of one job's curve."""
MAX_BINS = 2_000
"""Of one link, read to know when which bytes had left: coarser bins for longer jobs."""
AXES: dict[By, str] = {"step": "step", "samples": "samples trained on", "bytes": "bytes sent", "time": "time"}
TITLES: dict[What, str] = {"loss": "training loss", "accuracy": "test accuracy", "throughput": "samples/s"}
DASHES = ("solid", "dash", "dot", "dashdot")
"""More jobs than colours: the next ones are dashed."""
SMOOTHED_FROM = 60
"""Where nobody says otherwise, as many losses are smoothed; fewer, and everything else, are shown as they are."""
SMOOTHED = round(200 * SMOOTH_SHARE)
"""Percent of the points that the moving average then spans."""
MOST_SMOOTHED = 50


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One job's measurement."""

    name: str
    step: np.ndarray
    """(n)."""
    end_ns: np.ndarray
    """(n) since the job's first step."""
    value: np.ndarray
    """(n)."""
    x: np.ndarray
    """(n) on the chosen axis."""


def compare(
    session: Session,
    job_ids: Sequence[str],
    what: What,
    by: By,
    request: FigureRequest,
    smoothing: int | None = None,
) -> go.Figure:
    """The figure; a job that has not measured it (yet), or whose bytes nobody counted, is named below. `smoothing`:
    percent of the points that a moving average spans, 0 for none; None leaves it to what is drawn. Raises LookupError
    for a job that does not exist."""
    sources = [Source(session, job_id) for job_id in job_ids]
    jobs = [source.job for source in sources]
    curves = [curve(source, name, what, by) for source, name in zip(sources, names_of(jobs), strict=True)]
    revision = f"compare:{what}:{by}:{','.join(job_ids)}"
    figure = draw(curves, what, by, request, revision=revision, smoothing=smoothing)
    say_labels(figure, request, labels_of(jobs))
    return figure


def curve(source: Source, name: str, what: What, by: By) -> Curve:
    """A job's curve; without points where there is nothing to show."""
    if what == "accuracy":
        rows = source.metric("test_accuracy")
        step, at, value = rows["step"], rows["at"], rows["value"]  # after so many steps
    else:
        progress = source.progress(MAX_POINTS)
        step, at = progress["step"], progress["end"]
        value = progress["loss" if what == "loss" else "samples_per_s"]
    known = np.isfinite(value)
    step, at, value = step[known].astype(np.float64), at[known].astype(np.int64), value[known]
    first = source.trained_from()
    end_ns = at - first
    x = {
        "step": lambda: step,
        "samples": lambda: source.samples_until(step - 1 if what == "accuracy" else step),
        "bytes": lambda: bytes_until(source, at),
        "time": lambda: end_ns / 1e9,
    }[by]()
    known = np.isfinite(x)
    return Curve(name=name, step=step[known], end_ns=end_ns[known], value=value[known], x=x[known])


def bytes_until(source: Source, at_ns: np.ndarray) -> np.ndarray:
    """(n) bytes that all links of a job had sent at these times; NaN where nobody counted any. What the whole machine
    sent is not the job's."""
    total = np.zeros(len(at_ns))
    counted = False
    for link in source.links():
        if link.shared:
            continue
        ends = source.bin_range(link, 0)
        if ends is None:
            continue
        level = next(
            (at for at in range(LEVELS) if (ends[1] - ends[0]) // LEVEL_FACTOR**at <= MAX_BINS), LEVELS - 1
        )
        scale = LEVEL_FACTOR**level
        first, last = ends[0] // scale, ends[1] // scale
        rows = source.bins(link, level, first, last, Direction.TX)
        sent = np.zeros((2, last - first + 1))
        np.add.at(sent, ((rows["layer"] != ALL_LAYERS).astype(int), rows["bin"] - first), rows["bytes"])
        counted = counted or bool(sent.any())
        until = np.concatenate([[0.0], np.cumsum(sent, axis=1).max(axis=0)])
        edges = np.arange(first, last + 2) * float(BIN_NS * scale)
        total += np.interp(at_ns, edges, until)
    return total if counted else np.full(len(at_ns), np.nan)


def draw(
    curves: Sequence[Curve],
    what: What,
    by: By,
    request: FigureRequest,
    *,
    revision: str,
    smoothing: int | None = None,
) -> go.Figure:
    """The figure of curves, in the jobs' order."""
    left_out = [one.name for one in curves if not len(one.x)]
    if len(left_out) == len(curves):
        reason = "no link's bytes were counted" if by == "bytes" else f"no {TITLES[what]} yet"
        return notice(request, revision=revision, text=f"Nothing to compare: {reason}")
    colours = COLOURS[request.theme]
    spans = [_span(one, what) if smoothing is None else smoothing for one in curves]
    figure = go.Figure()
    for index, one in enumerate(curves):
        if not len(one.x):
            continue
        dash = DASHES[index // len(colours.series) % len(DASHES)]
        figure.add_trace(
            go.Scatter(
                x=one.x,
                y=_smoothed(one.value, spans[index]),
                mode="lines+markers" if what == "accuracy" else "lines",
                name=as_text(one.name),
                line={"width": 2.2, "color": colours.series[index % len(colours.series)], "dash": dash},
                marker={"size": 6},
                hovertemplate="%{y:.4g}",
            )
        )
    suffix = {"bytes": "B", "time": "s"}.get(by)
    figure.update_xaxes(
        title_text=AXES[by], rangemode="tozero", tickformat="~s" if suffix else None, ticksuffix=suffix
    )
    figure.update_yaxes(
        title_text=TITLES[what]
        + _over([span for one, span in zip(curves, spans, strict=True) if len(one.x)]),
        rangemode="tozero",
        tickformat=".0%" if what == "accuracy" else None,
    )
    if left_out:
        figure.add_annotation(
            text=as_text(f"Not measured: {', '.join(left_out)}"),
            xref="paper",
            yref="paper",
            x=1,
            y=1,
            xanchor="right",
            yanchor="top",
            font={"color": colours.muted, "size": 12},
        )
    say_coinciding(figure, curves, request)
    figure.update_layout(hovermode="x unified", showlegend=True)
    alt = "; ".join(f"{one.name}: {TITLES[what]} {one.value[-1]:.4g} at last" for one in curves if len(one.x))
    meta = {"what": what, "by": by, "left_out": left_out, "smoothing": max(spans)}
    return finish(figure, request, revision=revision, height=340, alt=alt, meta=meta)


def _span(one: Curve, what: What) -> int:
    """Percent of the points that are averaged where nobody says how many."""
    return SMOOTHED if what == "loss" and len(one.x) >= SMOOTHED_FROM else 0


def _over(spans: Sequence[int]) -> str:
    """What the axis says of the curves' smoothing; where some are smoothed by themselves, which ones are."""
    if not any(spans):
        return ""
    text = f"smoothed over {max(spans)} %"
    return f" ({text})" if all(spans) else f" ({text} where there are {SMOOTHED_FROM} points or more)"


def _smoothed(values: np.ndarray, percent: int) -> np.ndarray:
    return smooth(values, percent / 200) if percent and len(values) else values
