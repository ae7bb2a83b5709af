"""How figures are rounded, wherever they are written: in the terminal, in tables, in reports, and on the page
(`frontend/src/lib/format.ts`), so that one figure reads the same everywhere."""

from __future__ import annotations

from engine.telemetry.comparison import TIMES

STEP_TIME = "{:.2f} ms"
"""Times of an iteration and of its parts."""
THROUGHPUT = "{:.1f}"
"""Samples per second."""
SPEED_UP = TIMES
"""One job's throughput over another's; the ends of its interval have as many digits."""
TIMES_FASTEST = "{:.3f}"
"""A member's relative time, which is over the fastest's: members of a race lie close together."""
SHARE = "{:.0f} %"
"""A share of all processors or of a port's rate, in percent."""


NOT_MEASURED = "not measured"
"""In place of a share of processors that is not known; `PROCESSORS_UNKNOWN` says why."""
PROCESSORS_UNKNOWN = (
    "The processors' share is not measured where the machine does not say how busy they are (it has no /proc), or "
    "where too few steps were measured"
)

SPEED_WORDS = (
    "Iteration is the median of the slowest worker; samples/s is the sum over the workers, of each its mean samples "
    "per step over its own median iteration"
)
"""What stands below figures of both kinds: who divides one by the other would not know why they differ."""
INTERVAL_WORDS = (
    "The speed-up's 95 % is over these runs' steps: runs of one job may lie further apart (a race tells)"
)


def number(value: float | None, pattern: str = "{:.4g}", none: str = "-") -> str:
    """A figure, or `none` where there is none."""
    return none if value is None else pattern.format(value)


def counted(count: int, what: str) -> str:
    """`1 round`, `3 rounds`."""
    return f"{count} {what}{'s' * (count != 1)}"
