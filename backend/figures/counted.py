"""Bytes per step as the kernel counted them on a job's own links: what is known of who declares none, as PyTorch's own
collectives. On a lab's hosts interfaces count, headers of packets included, which a plan's declared bytes have not.
Elsewhere each process counts what its own connections sent, between processes of one machine, too, without headers."""

from __future__ import annotations

from backend.figures.link_bytes import apart
from backend.figures.source import Source
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS

MOST_BINS = 256
"""Of one link. What is left out at both ends of the time is less than a bin, and the rest stands for it."""


def counted_bytes_per_step(source: Source, scale: float) -> int | None:
    """Bytes that all links sent together between the start of the first step and the end of the last one, over the
    number of steps. None: nothing was trained yet, nothing was sent, or nobody counted: the job has no link of its own
    (a machine's interfaces are no job's own). `scale`: of a rehearsal, whose true sizes are so many times what was
    sent."""
    span = source.step_range_ns(0)
    links = apart(source.links())
    if span is None or not links:
        return None
    start, end = span
    level = next((at for at in range(LEVELS) if (end - start) // _width(at) <= MOST_BINS), LEVELS - 1)
    first, last = -(-start // _width(level)), end // _width(level) - 1
    if last < first:
        return None
    first_step, last_step = source.steps_between(start, end)
    share = (end - start) / ((last - first + 1) * _width(level))
    sent = sum(source.sent(link, level, first, last) for link in links)
    return round(sent * share * scale / (last_step - first_step + 1)) or None


def _width(level: int) -> int:
    """Of a bin, in ns."""
    return BIN_NS * LEVEL_FACTOR**level
