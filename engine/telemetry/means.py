"""How sure the mean of a few figures is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from engine.telemetry.estimates import ERROR, FEWEST, Interval


def interval_of_mean(
    values: Sequence[float] | np.ndarray, error: float = ERROR, least: float = 0.0
) -> Interval | None:
    """Of their mean, by Student's t; None with fewer than FEWEST. `least`: the spread that values have at least, though
    a few of them, which are rounded, may show less."""
    count = len(values)
    if count < FEWEST:
        return None
    mean, spread = float(np.mean(values)), max(float(np.std(values, ddof=1)), least)
    reach = float(stdtrit(count - 1, 1 - error / 2)) * spread / math.sqrt(count)
    return mean - reach, mean + reach
