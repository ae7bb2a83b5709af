"""How long a job is expected to run: as it declared, else as earlier ones of the same specification did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def left(duration_ns: int | None, ran_ns: Iterable[int]) -> int | None:
    """What is left of it for a job whose earlier attempts ended with a checkpoint after so long. None: nobody knows,
    which is also so where they have taken all of it."""
    if duration_ns is None:
        return None
    rest = duration_ns - sum(ran_ns)
    return rest if rest > 0 else None
