"""Which running jobs make room for one with a higher priority.

**Rule.** Only the first job of its line asks, and only jobs of a strictly lower priority that can save a checkpoint are
asked, so nobody displaces who could displace him. Those of the lowest priority go first; among equals who started last,
who has the least behind it. Whoever turns out not to be needed is spared, those of the highest priority first. Where
all of them together do not make enough room, nobody is asked. **Bounds.** A job makes room `MOST` times by this rule,
then no more; and not in the first `SETTLED_S` of an attempt, so that each attempt gets further than the one before. A
job that has made room asks nobody in turn. Who has not left `LEAVES_S` after it was asked goes on, as one that nobody
asked and that cannot be asked.
**Cost.** A sort of the running jobs and a choice of devices for each of them, once for each line in which somebody
waits. **Loses**: the greedy choice may ask two small jobs where one large one of the same priority would do; what a job
loses is its start, since its checkpoint is of the step in which it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.scheduler.backfill import Fits

MOST = 3
"""So often a job makes room, unless people ask it to."""
SETTLED_S = 60.0
"""An attempt that has run for less is left alone: it has hardly begun to train."""
LEAVES_S = 600.0
"""Who was asked so long ago, and runs still, is not counted on any more: others are asked in its place."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A job that runs, and may be asked."""

    job_id: str
    priority: int
    since_ns: int
    """When its attempt began (Unix)."""


def victims(
    fits: Fits, priority: int, leaving: Sequence[str], runs: Sequence[Run], now_ns: int
) -> tuple[str, ...]:
    """Ids of the jobs that have to end for a job of `priority` to fit; empty where it fits once those who are leaving
    have ended, and where all of them cannot make enough room."""
    asked = [run for run in runs if run.priority < priority and now_ns - run.since_ns >= SETTLED_S * 1e9]
    asked.sort(key=lambda run: (run.priority, -run.since_ns, run.job_id))
    taken: list[Run] = []

    def enough(some: Sequence[Run]) -> bool:
        return fits([*leaving, *(run.job_id for run in some)], now_ns) is not None

    for run in asked:
        if enough(taken):
            break
        taken.append(run)
    if not enough(taken):
        return ()
    for run in sorted(taken, key=lambda run: (-run.priority, run.since_ns, run.job_id)):
        if enough(rest := [other for other in taken if other is not run]):
            taken = rest
    return tuple(run.job_id for run in taken)


def stays(asked_unix_ns: int | None, now_unix_ns: int) -> bool:
    """Whether who was asked then is not counted on any more."""
    return asked_unix_ns is not None and now_unix_ns - asked_unix_ns >= LEAVES_S * 1e9
