"""How busy the processors of a job's machine were while its measured steps ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.figures.source import Source
from engine.telemetry.definitions import WARM_UP_STEPS, processors_share
from engine.telemetry.processors import BUSY, OWN

UNKNOWN = "not known: the machine does not say it, or too few steps were measured"


@dataclass(frozen=True, kw_only=True)
class Processors:
    """Shares (0 to 1) of all processors that the job may use."""

    busy: float
    """Not idle, whoever used them."""
    own: float
    """Taken by the job's own processes."""

    @property
    def text(self) -> str:
        """`41 % busy, 38 % by this job`."""
        return f"{self.busy:.0%} busy, {self.own:.0%} by this job".replace("%", " %")


def processors(source: Source) -> Processors | None:
    """Of the attempt that `source` reads, from the start of its first measured step to the end of its last one. None
    where nobody recorded it: a machine without /proc, a job from before it was sampled, or one too short."""
    busy = source.metric(BUSY)
    if not len(busy):
        return None
    span = source.step_range_ns(WARM_UP_STEPS)
    if span is None:
        return None
    shares = [_share(rows, *span) for rows in (busy, source.metric(OWN))]
    if shares[0] is None or shares[1] is None:
        return None
    # The kernel counts the two by different ticks.
    return Processors(busy=max(shares[0], shares[1]), own=shares[1])


def _share(rows: np.ndarray, from_ns: int, to_ns: int) -> float | None:
    known = rows[np.isfinite(rows["value"])]
    return processors_share(known["at"], known["value"], from_ns, to_ns)
