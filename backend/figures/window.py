"""Which stretch of time a timeline shows, and where its axis is zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.figures.request import FigureRequest

MARGIN = 0.03
"""Of the step's length, on both sides: its edges should be seen."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A stretch of one attempt's clock."""

    origin_ns: int
    """The axis counts from here."""
    from_ns: int
    """What is visible."""
    to_ns: int
    step: int | None
    """The step that the axis counts from; None where it counts from the clock's own zero."""

    @property
    def covered_ns(self) -> tuple[int, int]:
        """What the answer covers: three screen widths."""
        width = self.to_ns - self.from_ns
        return self.from_ns - width, self.to_ns + width


def step_span(rows: np.ndarray, step: int, to_step: int | None = None) -> tuple[int, int] | None:
    """From the start of `step` to the start of the forward after `to_step`, over all workers of STEP_ROW;
    to its end where the next one is not known. None where `step` is not."""
    own = rows[rows["step"] == step]
    if not len(own):
        return None
    last = rows[rows["step"] == (step if to_step is None else to_step)]
    if not len(last):
        last = rows[rows["step"] == rows["step"].max()]
    ends = [next_start(rows, int(row["party"]), int(row["step"])) or int(row["end"]) for row in last]
    return int(own["start"].min()), max(ends)


def next_start(rows: np.ndarray, party: int, step: int) -> int | None:
    """When a worker's forward of the step after `step` started; None where that is not known."""
    after = rows[(rows["party"] == party) & (rows["step"] == step + 1)]
    return int(after["start"][0]) if len(after) else None


def choose_window(request: FigureRequest, rows: np.ndarray, step: int | None) -> Window | None:
    """The window of a request; `step` is the one to count from and `rows` are STEP_ROW around it. None where
    neither the request nor the steps say."""
    span = None if step is None else step_span(rows, step, request.to_step)
    origin = span[0] if span else 0
    if request.from_ns is not None and request.to_ns is not None:
        return Window(
            origin_ns=origin, from_ns=request.from_ns, to_ns=request.to_ns, step=step if span else None
        )
    if span is None:
        return None
    margin = max(int((span[1] - span[0]) * MARGIN), 1_000)
    return Window(origin_ns=origin, from_ns=span[0] - margin, to_ns=span[1] + margin, step=step)
