"""Compare: one measurement of several jobs, over steps, samples, bytes or time.

Steps and samples are what the jobs trained on, of each worker what it made; bytes are those that their links sent until
the step's end, counted by the interfaces where these were sampled, else by the layers' messages; time counts from each
job's first step. A job that goes on from a checkpoint is shown from its beginning (`course.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from sqlalchemy.orm import Session

from backend.figures.base import finish, notice, say_labels
from backend.figures.coinciding import say_coinciding
from backend.figures.course import Stretch, begun_step, course
from backend.figures.loss import SMOOTH_SHARE, smooth
from backend.figures.markup import as_text
from backend.figures.request import FigureRequest
from backend.figures.several import labels_of, names_of
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from backend.figures.throughput import rate_range

By = Literal["step", "samples", "bytes", "time"]
What = Literal["loss", "accuracy", "throughput"]
MAX_POINTS = 600
"""Of one job's curve."""
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
    begun_step: int = 0
    """After so many steps of another job it begins."""


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
    """A job's curve, over all attempts whose steps were kept; without points where there is nothing to show."""
    stretches = course(source)
    parts = [_points(one, what, by) for one in stretches]
    step, seconds, value, x = (np.concatenate([part[at] for part in parts]) for at in range(4))
    known = np.isfinite(x)
    return Curve(
        name=name,
        step=step[known],
        end_ns=(seconds[known] * 1e9).astype(np.int64),
        value=value[known],
        x=x[known],
        begun_step=begun_step(stretches),
    )


def _points(stretch: Stretch, what: What, by: By) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Step, seconds since the job's first step, value and place on the chosen axis (n) each."""
    if what == "accuracy":
        rows = stretch.source.metric("test_accuracy")
        rows = rows[stretch.has_measured(rows)]
        step, at, value = rows["step"], rows["at"], rows["value"]  # after so many steps
    else:
        rows = stretch.source.progress(MAX_POINTS)
        rows = rows[stretch.has(rows)]
        step, at = rows["step"], rows["end"]
        value = rows["loss" if what == "loss" else "samples_per_s"]
    known = np.isfinite(value)
    step, at, value = step[known].astype(np.float64), at[known].astype(np.int64), value[known]
    seconds = stretch.seconds_until(at)
    x = {
        "step": lambda: step,
        "samples": lambda: stretch.samples_until(step - 1 if what == "accuracy" else step),
        "bytes": lambda: stretch.bytes_until(at),
        "time": lambda: seconds,
    }[by]()
    return step, seconds, value, x


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
    shown = [replace(one, value=_smoothed(one.value, span)) for one, span in zip(curves, spans, strict=True)]
    figure = go.Figure()
    for index, one in enumerate(shown):
        if not len(one.x):
            continue
        dash = DASHES[index // len(colours.series) % len(DASHES)]
        figure.add_trace(
            go.Scatter(
                x=one.x,
                y=one.value,
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
    said = [f"Not measured: {', '.join(left_out)}"] if left_out else []
    said += [
        f"{one.name} begins with another job's checkpoint: {AXES[by]} counts from its step {one.begun_step} on"
        for one in curves
        if one.begun_step and by != "step"
    ]
    if said:
        figure.add_annotation(
            text="<br>".join(map(as_text, said)),
            align="right",
            xref="paper",
            yref="paper",
            x=1,
            y=1,
            xanchor="right",
            yanchor="bottom",
            font={"color": colours.muted, "size": 12},
        )
    if what == "throughput":
        start, end = rate_range([one.value for one in curves if len(one.x)])
        figure.update_yaxes(range=[start, end])
        shown = [replace(one, value=np.minimum(one.value, end)) for one in shown]
    say_coinciding(figure, shown, request)
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
