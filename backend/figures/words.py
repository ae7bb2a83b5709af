"""What a span says when pointed at: strings for its hover, its label, and numbers for the page."""

from __future__ import annotations

import numpy as np

from backend.figures.facts import JobFacts
from backend.figures.markup import as_text
from engine.plan.units_of_measure import format_bytes
from engine.telemetry.events import NONE, Clock, Kind, Track

VERBS = {Kind.SEND: "to", Kind.RECEIVE: "from"}
CLOCKS = {Clock.HOST: "by the host's clock", Clock.CUDA: "by the device's clock"}
CUSTOMDATA = ("job", "party", "step", "layer", "unit", "kind", "peer")
"""Columns of a bar's customdata: which event it is."""


def hover_texts(spans: np.ndarray, job: JobFacts) -> np.ndarray:
    """(n) strings: layer, slice, kind, step, peer, priority, how long it was queued and took by which clock, bytes."""
    texts = np.empty(len(spans), object)
    for i, (
        party,
        step,
        layer,
        unit,
        kind,
        track,
        peer,
        priority,
        queued,
        start,
        end,
        size,
        clock,
    ) in enumerate(
        zip(
            *(
                spans[name].tolist()
                for name in (
                    "party",
                    "step",
                    "layer",
                    "unit",
                    "kind",
                    "track",
                    "peer",
                    "priority",
                    "queued",
                    "start",
                    "end",
                    "bytes",
                    "clock",
                )
            ),
            strict=True,
        )
    ):
        what = f"<b>{as_text(job.event_title(layer, unit))}</b> " if layer >= 0 else ""
        waiting = ", waited for" if kind == Kind.SWAP_IN and track == Track.COMPUTE else ""
        slice_ = f", unit {unit}" if unit != NONE else ""
        lines = [f"{what}{kind_name(kind)}{waiting}{slice_}", f"{job.party(party)}, step {step}"]
        if peer != NONE:
            lines.append(f"{VERBS.get(kind, 'with')} {job.party(peer)}, priority {priority}")
        took = f"{(end - start) / 1e6:.3f} ms {CLOCKS[clock]}"
        waited = (start - queued) / 1e6 if queued != NONE else 0.0
        lines.append(f"queued {waited:.3f} ms, took {took}" if waited > 0 else f"took {took}")
        if size > 0:
            lines.append(format_bytes(size))
        texts[i] = "<br>".join(lines)
    return texts


def kind_name(kind: int) -> str:
    return "exposed wait" if kind == Kind.WAIT else Kind(kind).name.lower().replace("_", " ")


def numbers(spans: np.ndarray, job: int) -> np.ndarray:
    """(n, 7) int32, the columns of CUSTOMDATA; `job` is the job's place in the figure."""
    first = np.full(len(spans), job, np.int32)
    return np.stack([first, *(spans[name].astype(np.int32) for name in CUSTOMDATA[1:])], axis=1)


def labels(spans: np.ndarray, wide: np.ndarray, job: JobFacts) -> np.ndarray:
    """(n) strings: the layer's name, or the bucket's, where the bar is `wide` enough to hold one, else empty."""
    texts = np.full(len(spans), "", object)
    for i in np.flatnonzero(wide):
        texts[i] = as_text(job.event_named(int(spans["layer"][i]), int(spans["unit"][i])))
    return texts
