"""Step time: what a worker's step consists of, worker by worker, and who the others wait for."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, format_ms, notice
from backend.figures.facts import JobFacts
from backend.figures.processors import Processors, processors
from backend.figures.request import FigureRequest
from backend.figures.rows import abbreviate
from backend.figures.source import Source
from backend.figures.speed import median_part_ns, window_steps
from backend.figures.theme import COLOURS
from engine.telemetry.definitions import WARM_UP_STEPS, median_iteration_ns

STRAGGLER = 0.05
"""The worker whose own work (computation and input) exceeds the others' median by more than this share of its step is
called a straggler. Of the step, not of the work: where most of a step is communication, a late worker costs nobody
much. Medians of equal workers on a busy machine differ by less, so that this is more than noise."""
SMALLEST = 0.005
"""A part that is nowhere as much of the step is left out of the drawing."""
NOTE_PX = 28
PARTS = ("compute", "exposed", "input", "idle")
UNIT = "ms per step (median)"


def step_time(source: Source, request: FigureRequest) -> go.Figure:
    """Medians over the newest steps (or periods), warm-up left out."""
    last = source.last_step()
    rows = source.step_rows(max(last - window_steps(source.period), 0), last)
    if (rows["step"] >= WARM_UP_STEPS).any():
        rows = rows[rows["step"] >= WARM_UP_STEPS]
    if not len(rows):
        text = source.job.without("step time", "first step", "ended")
        return notice(request, revision=f"step-time:{source.job.id}", text=text)
    return draw(source.job, split(rows, source.period), request, processors(source))


def split(rows: np.ndarray, period: int) -> dict[int, dict[str, float]]:
    """Median ns of every part by worker, of STEP_ROW: computation, exposed communication, input, and the
    idle rest of the iteration; per step of whole periods."""
    found = {}
    for party in np.unique(rows["party"]):
        own = rows[rows["party"] == party]
        parts = {name: median_part_ns(own, name, period) for name in ("compute", "exposed", "input")}
        whole = median_iteration_ns(own["step"], own["start"], own["end"], period=period, warm_up=0)
        length = float(np.median(own["end"] - own["start"])) if whole is None else whole
        parts["idle"] = max(length - sum(parts.values()), 0.0)
        found[int(party)] = parts
    return found


def straggler(parts: dict[int, dict[str, float]]) -> int | None:
    """The worker that the others wait for; None where all work about equally long, or nobody waits long."""
    if len(parts) < 2:
        return None
    slowest = max(parts, key=lambda party: _work_ns(parts[party]))
    step_ns = sum(parts[slowest].values())
    return slowest if _later_ns(parts, slowest) > STRAGGLER * step_ns else None


def _work_ns(part: dict[str, float]) -> float:
    """What a worker does by itself in a step."""
    return part["compute"] + part["input"]


def _later_ns(parts: dict[int, dict[str, float]], slow: int) -> float:
    """How much longer it takes for that than the others' median."""
    return _work_ns(parts[slow]) - float(
        np.median([_work_ns(part) for party, part in parts.items() if party != slow])
    )


def draw(
    job: JobFacts,
    parts: dict[int, dict[str, float]],
    request: FigureRequest,
    machine: Processors | None = None,
) -> go.Figure:
    """The figure of `split`'s parts; below it how busy the processors of the `machine` were, where that is known."""
    colours = COLOURS[request.theme]
    looks = {
        "compute": ("computation", colours.compute),
        "exposed": ("exposed communication", colours.wait),
        "input": ("waiting for input", colours.series[1]),
        "idle": ("idle: evaluation, bookkeeping", colours.idle),
    }
    slow = straggler(parts)
    names = []
    for party in parts:
        name = abbreviate(job.party(party)) if request.narrow else job.party(party)
        names.append(f"{name}<br><b>straggler</b>" if party == slow else name)
    figure = go.Figure()
    for part in PARTS:
        values = np.array([of[part] for of in parts.values()]) / 1e6
        if values.max() < SMALLEST * max(sum(of.values()) for of in parts.values()) / 1e6:
            continue
        name, colour = looks[part]
        figure.add_trace(
            go.Bar(
                orientation="h",
                x=values,
                y=names,
                name=name.partition(":")[0] if request.narrow else name,
                marker={"color": colour, "line": {"width": 0}},
                text=[format_ms(v * 1e6) for v in values] if not request.narrow else None,
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                hovertemplate=f"{name}: %{{x:.3g}} ms<extra></extra>",
            )
        )
    second_line = 17 if machine is not None and request.narrow else 0  # of the axis's title
    if slow is not None:
        figure.add_annotation(
            x=1,
            y=0,  # above the bars is the legend
            xref="paper",
            yref="paper",
            xanchor="right",
            yanchor="top",
            text=_late(job, slow, _later_ns(parts, slow), request),
            yshift=-46 - second_line,
            font={"size": 12, "color": colours.muted},
        )
    title = UNIT
    if machine is not None:
        title += f"{'<br>' if request.narrow else '; '}processors of the machine: {machine.text}"
    figure.update_xaxes(title_text=title, rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, fixedrange=True, ticks="")
    figure.update_layout(
        barmode="stack",
        bargap=0.32,
        legend={"traceorder": "normal"},
        uniformtext={"mode": "hide", "minsize": 9},
    )
    alt = "; ".join(
        f"{job.party(party)}: " + ", ".join(f"{looks[part][0]} {format_ms(of[part])}" for part in PARTS)
        for party, of in parts.items()
    )
    if machine is not None:
        alt += f"; processors of the machine: {machine.text}"
    room = NOTE_PX + second_line if slow is not None else 0  # for the note below the axis
    if room:
        figure.update_layout(margin={"b": room + 40})
    height = 120 + 44 * len(parts) + room
    # For files: the axis says more than the unit.
    return finish(
        figure, request, revision=f"step-time:{job.id}", height=height, alt=alt, meta={"unit": UNIT}
    )


def _late(job: JobFacts, slow: int, ns: float, request: FigureRequest) -> str:
    """How much longer the straggler takes for its own part of a step; on a phone in few words, as it has one line."""
    if request.narrow:
        return f"{abbreviate(job.party(slow))}: computation and input {format_ms(ns)} longer"
    return f"{job.party(slow)} takes {format_ms(ns)} longer per step to compute and get input"
