"""A job's evaluations, with all that they may be drawn over: steps, samples, bytes and time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.figures.compare import bytes_until
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
    rows = source.metric(metric)
    at = rows["at"].astype(np.int64)
    return Evaluated(
        step=rows["step"].astype(np.float64),
        samples=source.samples_until(rows["step"].astype(np.float64) - 1),
        sent_bytes=bytes_until(source, at),
        seconds=(at - source.trained_from()) / 1e9,
        value=rows["value"].astype(np.float64),
    )
