"""How sure the mean of a few figures is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.telemetry.estimates import ERROR, FEWEST, MOST_MISSING, Interval


def interval_of_mean(
    values: Sequence[float] | np.ndarray, error: float = ERROR, least: float = 0.0
) -> Interval | None:
    """Of their mean, by Student's t; None with fewer than FEWEST. `least`: the spread that values have at least, though
    a few of them, which are rounded, may show less."""
    count = len(values)
    if count < FEWEST:
        return None
    mean, spread = float(np.mean(values)), max(float(np.std(values, ddof=1)), least)
    reach = float(_student_t(count - 1, error)) * spread / math.sqrt(count)
    return mean - reach, mean + reach


def missing_values(interval: Interval, count: int, reach: float, error: float = ERROR) -> int | None:
    """How many more values, if they spread as these `count` do, until the interval of their mean reaches less than
    `reach` to each side; None where MOST_MISSING are not enough."""
    spread = (interval[1] - interval[0]) / 2 * math.sqrt(count) / float(_student_t(count - 1, error))
    counts = count + np.arange(1, MOST_MISSING + 1)
    enough = np.flatnonzero(_student_t(counts - 1, error) * spread / np.sqrt(counts) < reach)
    return int(enough[0]) + 1 if len(enough) else None


def _student_t(degrees: int | np.ndarray, error: float) -> np.ndarray:
    """How many standard errors an interval reaches to each side that misses the mean with the probability `error`.
    Where SciPy is loaded when the first interval is asked for, a server starts without it."""
    from scipy.special import stdtrit  # noqa: PLC0415  (a tenth of what a server loads)

    found: np.ndarray = stdtrit(degrees, 1 - error / 2)
    return found
