"""Waits of a recorded run: the longest ones in view, and one that a person chose, explained and lit up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from backend.figures import words
from backend.figures.boxes import Boxes, place
from backend.figures.draw import bars
from backend.figures.facts import JobFacts
from backend.figures.request import FigureRequest
from backend.figures.rows import Row
from backend.figures.source import Source
from backend.figures.theme import COLOURS
from backend.figures.why import Wait, Why, explain, waits_of
from engine.telemetry.events import Kind

LOOK_BACK_NS = 200_000_000
"""A message that ended a wait may have left its sender's hands before the wait began."""
MOST_LISTED = 8
DIMMED = 0.22
LIT, AHEAD, PATH = "what ended the wait", "ahead of it", "its way"
_IDENTITY = ("start", "end", "party", "kind", "unit", "peer")


def look_up(source: Source, wait: Wait) -> Why | None:
    """The explanation of a wait; None where it was not recorded, or its step not in detail."""
    rows = source.step_rows(wait.step, wait.step)
    if not len(rows):
        return None
    spans = source.spans(int(rows["start"].min()), int(rows["end"].max()))
    found = wait.find(spans)
    if found is None:
        return None
    start, end = int(found["start"]), int(found["end"])
    why = explain(source.spans(start - max(end - start, LOOK_BACK_NS), end), found)
    before = wait.step - 1
    if len(why.path) or before < 0 or before in source.detailed_steps():
        return why
    return replace(why, not_kept=before)


def longest(spans: np.ndarray, from_ns: int, to_ns: int, job: JobFacts) -> list[dict[str, int | str]]:
    """The longest waits in a window (by their middle), for who has no pointer: which each is, its layer's name, and how
    long."""
    waits = waits_of(spans)
    middle = (waits["start"] + waits["end"]) // 2
    waits = waits[(middle > from_ns) & (middle < to_ns)]
    waits = waits[np.argsort(waits["start"] - waits["end"], kind="stable")][:MOST_LISTED]
    names = ("party", "step", "layer", "unit")
    return [
        {
            **{name: int(wait[name]) for name in names},
            "layer_name": job.event_named(int(wait["layer"]), int(wait["unit"])),
            "ns": int(wait["end"] - wait["start"]),
        }
        for wait in waits
    ]


def light_up(
    figure: go.Figure,
    why: Why,
    job: JobFacts,
    rows: Sequence[Row],
    place_in_figure: tuple[int, int],
    request: FigureRequest,
) -> None:
    """Pale everything, and draw the wait, the message that ended it and what was ahead of it on top.

    `place_in_figure`: the job's number in the figure, and the ns at which its axis is 0.
    """
    number, origin_ns = place_in_figure
    colours = COLOURS[request.theme]
    figure.update_traces(
        opacity=DIMMED,
        selector=lambda trace: trace.type in {"bar", "heatmap"} or getattr(trace, "fill", None) == "toself",
    )
    path = np.append(why.path, why.wait)
    together = np.unique(np.concatenate([path, why.ahead]))
    together = together[np.argsort(together["start"], kind="stable")]
    boxes = place(together, rows, len(job.layers), origin_ns)
    spans = together[boxes.source]
    own = _among(spans, path)
    for name, which, line in (
        (AHEAD, ~own, {"width": 1, "color": colours.muted}),
        (LIT, own, {"width": 2, "color": colours.text}),
    ):
        lit = spans[which]
        for trace in bars(
            _some(boxes, which),
            words.hover_texts(lit, job),
            words.numbers(lit, number),
            words.labels(lit, np.zeros(len(lit), bool), job),
            request.theme,
        ):
            figure.add_trace(trace.update(name=name, marker={"line": line}))
    figure.add_trace(_way(why, rows, origin_ns, colours.text))


def _way(why: Why, rows: Sequence[Row], origin_ns: int, colour: str) -> Any:
    """A line through the message's stations, in order of time."""
    centre = {(row.party, int(row.track)): row.centre for row in rows}
    x: list[float] = []
    y: list[float] = []
    for span in (*why.path[::-1], why.wait):
        at = centre.get((int(span["party"]), int(span["track"])))
        if at is None:
            continue
        start, end = int(span["start"]), int(span["end"])
        if span["kind"] == Kind.WAIT:
            start = end  # the way ends where the wait does
        elif span["kind"] == Kind.BACKWARD:
            start = max(start, int(why.wait["start"]))
        x += [start, end]
        y += [at, at]
    return go.Scatter(
        x=(np.array(x) - origin_ns) / 1e9,
        y=np.array(y),
        mode="lines",
        line={"color": colour, "width": 1.4, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
        name=PATH,
    )


def _some(boxes: Boxes, which: np.ndarray) -> Boxes:
    names = ("x0", "x1", "y0", "y1", "code", "row", "source")
    return Boxes(**{name: getattr(boxes, name)[which] for name in names})


def _among(spans: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(n) which SPAN rows are also among `chosen`."""
    known = set(zip(*(chosen[name].tolist() for name in _IDENTITY), strict=True))
    return np.array(
        [key in known for key in zip(*(spans[name].tolist() for name in _IDENTITY), strict=True)], bool
    )
