"""Timeline: what every party did when. Rows: compute, send, receive, server; colour: the layer's position.

One step or a window of time, at the level of detail that fits: bars with hover, filled outlines, cells (each
the colour that takes most of it), and above some dozens of steps a heat map of the rollups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures.base import finish, format_ms, notice, share_time_axis
from backend.figures.boxes import shade
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.rolled import group_size
from backend.figures.rollup import draw_rollup
from backend.figures.rows import height_of, rows_of
from backend.figures.scene import Part, View, add_key, paint, rules, scene_height, set_axes
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from backend.figures.waits import light_up, longest, look_up
from backend.figures.why import Why
from backend.figures.window import Window, choose_window
from engine.telemetry.events import Kind, Track

MAX_STEPS = 40
"""More steps than this in view are shown by their rollups."""
LABEL_PX = 64
"""Room for a step's number, and what the rows' names take of the width."""
MAX_EVENTS = 300_000
"""No figure decodes more."""


def timeline(source: Source, request: FigureRequest) -> go.Figure:
    """The timeline of the attempt that `source` reads."""
    job, last = source.job, source.last_step()
    revision = f"timeline:{job.id}"
    detailed = source.detailed_steps()
    step = request.step
    if step is None and request.from_ns is None and len(detailed):
        step = newest(detailed, last)
    if last < 0:
        return notice(request, revision=revision, text=job.without("events", "first step", "ended"))
    if step is not None and not 0 <= step <= last:
        return notice(
            request,
            revision=revision,
            text=f"Step {step} is not there: the steps are 0 to {last}{'' if job.over else ' so far'}",
        )
    rows = (
        source.step_rows(step, (request.to_step or step) + 1)
        if step is not None
        else source.step_rows(last, last)
    )
    window = choose_window(request, rows, step)
    if window is None:
        rows = source.step_rows(max(last - MAX_STEPS, 0), last)
        window = Window(
            origin_ns=0, from_ns=int(rows["start"].min()), to_ns=int(rows["end"].max()), step=None
        )
    first, final = source.steps_between(window.from_ns, window.to_ns)
    steps = _steps(detailed, step, last)
    if final - first < MAX_STEPS and source.count_events(*window.covered_ns) <= MAX_EVENTS:
        spans = source.spans(*window.covered_ns)
        visible = (spans["end"] > window.from_ns) & (spans["start"] < window.to_ns)
        if visible.any():
            around = source.steps_between(*window.covered_ns)
            why = None if request.wait is None else look_up(source, request.wait)
            figure = draw(job, spans, source.step_rows(*around), window, request, why)
            return figure.update_layout(meta={**figure.layout.meta, **steps})
    if final < first:
        return notice(request, revision=revision, text="No step ran in this stretch of time")
    columns = max(request.width // 3, 1)
    shares = source.track_shares(first, final, max(1, (final - first + 1) // columns))
    waits = None
    if request.layer is not None and request.layer < len(job.layers):
        waits = source.waits_for(request.layer, first, final, group_size(final - first + 1, columns))
    return draw_rollup(job, shares, window, request, steps | {"level": "rollup", **_window(window)}, waits)


def draw(
    job: JobFacts,
    spans: np.ndarray,
    step_rows: np.ndarray,
    window: Window,
    request: FigureRequest,
    why: Why | None = None,
) -> go.Figure:
    """The figure of SPAN rows and the STEP_ROW rows around them; `why` is lit up."""
    rows = rows_of(spans["party"], spans["track"], job.parties, short=request.narrow)
    view = View(
        from_s=(window.from_ns - window.origin_ns) / 1e9, to_s=(window.to_ns - window.origin_ns) / 1e9
    )
    part = Part(job=job, spans=spans, rows=rows, origin_ns=window.origin_ns)
    traces, level, count = paint([part], view, request)
    figure = go.Figure(traces)
    if why is not None:
        light_up(figure, why, job, rows, (0, window.origin_ns), request)
    bottom = height_of(rows)
    _mark_steps(figure, step_rows, window, bottom, request)
    set_axes(figure, rows, view, bottom, top=-0.75)
    share_time_axis(figure, request)
    add_key(figure, job, request, [spans])
    meta = {"level": level, "spans": count, "events": len(spans), **_window(window)}
    meta["codes"] = [shade(layer, len(job.layers)) for layer in range(len(job.layers))]
    meta["layers"] = list(job.titles)
    meta["waits"] = longest(spans, window.from_ns, window.to_ns, job)
    return finish(
        figure,
        request,
        revision=_revision(job, window),
        height=scene_height(rows),
        alt=_words(job, spans, window),
        meta=meta,
    )


def newest(detailed: np.ndarray, last: int) -> int:
    """The step to begin with, of those that kept every event (ascending, at least one): the newest that is over and
    follows another such step.

    What a step waits for, the step before it sent: of a slow step that was kept alone the figure has the wait, and
    none of the messages. Such a step is only shown where there is no other one."""
    over = detailed[detailed < last]
    led_up_to = over[np.isin(over - 1, detailed)]
    steps = next(steps for steps in (led_up_to, over, detailed) if len(steps))
    return int(steps[-1])


def _words(job: JobFacts, spans: np.ndarray, window: Window) -> str:
    """How long, and how much of it each worker waited."""
    low, high = window.from_ns, window.to_ns
    waits = spans[(spans["kind"] == Kind.WAIT) & (spans["track"] == Track.COMPUTE)]
    inside = np.minimum(waits["end"], high) - np.maximum(waits["start"], low)
    said = [
        f"{job.party(party)} {format_ms(inside[(waits['party'] == party) & (inside > 0)].sum())}"
        for party in np.unique(spans["party"][spans["track"] == Track.COMPUTE]).tolist()
    ]
    step = "" if window.step is None else f"step {window.step}, "
    return f"{step}{format_ms(high - low)} in view; exposed wait: {', '.join(said) or 'none'}"


def _revision(job: JobFacts, window: Window) -> str:
    return f"timeline:{job.id}:{window.origin_ns}"


def _mark_steps(
    figure: go.Figure, step_rows: np.ndarray, window: Window, bottom: float, request: FigureRequest
) -> None:
    """A line where the first worker starts each step, with the step's number above as far as there is
    room."""
    numbers = np.unique(step_rows["step"])
    if not len(numbers):
        return
    starts = np.array([step_rows["start"][step_rows["step"] == number].min() for number in numbers])
    x = (starts - window.origin_ns) / 1e9
    colours = COLOURS[request.theme]
    figure.add_trace(rules(x, np.full(len(x), -0.15), np.full(len(x), bottom), colours.muted))
    room_ns = LABEL_PX / request.width * (window.to_ns - window.from_ns)
    inside = np.flatnonzero((starts >= window.from_ns) & (starts < window.to_ns - room_ns))
    labelled = -np.inf
    for i in inside:
        if starts[i] - labelled < 2 * room_ns:  # steps may be few and lie close together
            continue
        labelled = starts[i]
        figure.add_annotation(
            x=float(x[i]),
            y=-0.15,
            xref="x",
            yref="y",
            xanchor="left",
            yanchor="bottom",
            text=f"step {numbers[i]}",
            font={"size": 11, "color": colours.muted},
        )


def _window(window: Window) -> dict[str, Any]:
    covered = window.covered_ns
    return {
        "origin_ns": window.origin_ns,
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
        "step": window.step,
        "covered_ns": [covered[0], covered[1]],
    }


def _steps(detailed: np.ndarray, step: int | None, last: int) -> dict[str, Any]:
    """Where one can go from here: the neighbours that kept every event, for stepping with the keyboard."""
    before = detailed[detailed < step] if step is not None else detailed[:0]
    after = detailed[detailed > step] if step is not None else detailed[:0]
    return {
        "steps": {
            "last": last,
            "detailed": len(detailed),
            "previous": int(before[-1]) if len(before) else None,
            "next": int(after[0]) if len(after) else None,
        }
    }
