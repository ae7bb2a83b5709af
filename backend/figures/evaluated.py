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
    """Trained on until then, of each worker those of the steps that it had ended."""
    sent_bytes: np.ndarray
    """Sent until then on all links; NaN where nobody counted any."""
    seconds: np.ndarray
    """Since the job's first step began."""
    value: np.ndarray


def evaluated(source: Source, metric: str) -> Evaluated:
    """Every finite value of `test_accuracy` or `test_loss`."""
    rows = source.metric(metric)
    rows = rows[np.isfinite(rows["value"])]
    at = rows["at"].astype(np.int64)
    return Evaluated(
        step=rows["step"].astype(np.float64),
        samples=source.samples_until(rows["step"].astype(np.float64) - 1),
        sent_bytes=bytes_until(source, at),
        seconds=(at - source.trained_from()) / 1e9,
        value=rows["value"].astype(np.float64),
    )
