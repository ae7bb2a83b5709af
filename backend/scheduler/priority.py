"""The order of the queue: higher priority first, then whose project's turn it is, then the older job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from backend.scheduler.fair_share import Shares, by_share

if TYPE_CHECKING:
    from backend.scheduler.decide import QueuedJob


def in_order(queued: Sequence[QueuedJob], kinds: Mapping[str, str], shares: Shares) -> Iterator[QueuedJob]:
    """The jobs that wait, in the order of their turns. `kinds`: a job's id to the kind of device that it gets."""
    by_age = sorted(queued, key=lambda job: (-job.priority, job.queued_unix_ns, job.id))
    for _, equals in groupby(by_age, key=lambda job: job.priority):
        yield from by_share(list(equals), kinds, shares)
