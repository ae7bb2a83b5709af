"""A job's evaluations over its whole course, with all that they may be drawn over: steps, samples, bytes and time."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from backend.figures.course import Stretch, course
from backend.figures.source import Source


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """(n) each, in their order."""

    step: np.ndarray
    """After so many steps, worker 0's where workers drift."""
    samples: np.ndarray
    """Of these steps, of every worker that made them: where workers drift, the others made more of theirs by then, or
    fewer."""
    sent_bytes: np.ndarray
    """Sent until then on all links; NaN where nobody counted any."""
    seconds: np.ndarray
    """Since the job's first step began."""
    value: np.ndarray
    """Not finite where the run had diverged."""


def evaluated(source: Source, metric: str) -> Evaluated:
    """Every value of `test_accuracy` or `test_loss`, also those that are no finite number: without them a run that
    diverged would be one that ended sooner."""
    parts = [_of(stretch, metric) for stretch in course(source)]
    return Evaluated(
        **{
            each.name: np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(Evaluated)
        }
    )


def _of(stretch: Stretch, metric: str) -> Evaluated:
    rows = stretch.source.metric(metric)
    rows = rows[stretch.has_measured(rows)]
    at = rows["at"].astype(np.int64)
    step = rows["step"].astype(np.float64)
    return Evaluated(
        step=step,
        samples=stretch.samples_until(step - 1),
        sent_bytes=stretch.bytes_until(at),
        seconds=stretch.seconds_until(at),
        value=rows["value"].astype(np.float64),
    )
