"""A figure and how sure it is, and the ratio of two. What decides by such figures, and what writes them down, needs no
more: without numpy, which the terminal would load for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

Interval = tuple[float, float]
"""Low and high end."""
FEWEST = 3
"""Values that an interval of their mean takes: of two it may be a million times as wide as the mean."""
ERROR = 0.05
"""Probability of an interval that does not cover the true value."""
MOST_MISSING = 100
"""Further values; it is not told whether so many more would do, or a thousand."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured quantity, and how sure it is."""

    value: float
    interval: Interval | None = None
    """Its 95 % confidence interval (low, high); None where too little was measured to tell."""


def ratio(ours: Estimate, theirs: Estimate) -> Estimate:
    """`ours` over `theirs`, which are independent of each other, with the 95 % confidence interval of the ratio: each
    end's two relative distances are added as squares (Zou and Donner, Statistics in Medicine 27, 2008: MOVER)."""
    value = ours.value / theirs.value
    if ours.interval is None or theirs.interval is None or min(*ours.interval, *theirs.interval) <= 0:
        return Estimate(value=value)
    below = math.hypot(math.log(ours.value / ours.interval[0]), math.log(theirs.interval[1] / theirs.value))
    above = math.hypot(math.log(ours.interval[1] / ours.value), math.log(theirs.value / theirs.interval[0]))
    return Estimate(value=value, interval=(value * math.exp(-below), value * math.exp(above)))
