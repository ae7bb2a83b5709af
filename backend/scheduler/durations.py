"""How long a job is expected to run: as it declared, else as earlier ones of the same specification did."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

LEAST, NEWEST = 3, 9
"""Earlier jobs: with fewer nothing is learned, and older ones are not looked at."""


def expected(declared_s: float | None, earlier_ns: Sequence[int]) -> int | None:
    """Nanoseconds that a job is expected to run, from the newest earlier ones first; None: nobody knows. The median is
    exceeded by half of all jobs: that is no limit, and a job which runs longer goes on."""
    if declared_s is not None:
        return round(declared_s * 1e9)
    if len(earlier_ns) < LEAST:
        return None
    return round(median(earlier_ns[:NEWEST]))
