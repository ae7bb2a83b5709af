"""Whose turn it is among projects: that one's which has used least for its weight.

**Rule.** Among jobs of equal priority the next one is the oldest of the project with the smallest U / w. U are the
device seconds of one kind of device that the project has used, each counted 2^(-t / h) after t, and those that its jobs
will still take: what runs and what has been given its turn before. w is the project's weight, h the half-life. Where
jobs of one project wait only, age alone decides. **Cost.** One step of a heap for each job that waits. **Loses**:
nobody keeps devices for a project that asks for none now; a project that comes back finds the others' jobs running, and
goes first from then on. **Source.** Kay and Lauder, "A Fair Share Scheduler" (CACM 1988); decay and weights as in
Slurm's multifactor plugin (`PriorityDecayHalfLife`). **Deviation**: shares order jobs of equal priority, where Slurm
adds one number for both; kinds of device are counted apart, because a second of a CPU slot is worth none of a GPU; what
is expected counts too, so that a project does not get everything in the pass in which it has used nothing yet.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.scheduler.decide import QueuedJob

ASSUMED_S = 600.0
"""Of a job whose duration nobody knows, as far as its project's share goes."""
HALF_LIFE_S = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What projects have used, and what they are to have."""

    used: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(project, kind of device) to device seconds: decayed, and what its running jobs will still take."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Above 0; 1 for a project that is not there."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Devices that a job of a project holds, or held."""

    project: str
    kind: str
    devices: int
    start_ns: int
    ends_ns: int | None = None
    """When it is expected to end; None: nobody knows."""


class Ledger:
    """What projects have used so far."""

    def __init__(self, half_life_s: float = HALF_LIFE_S) -> None:
        self._rate = math.log(2) / half_life_s
        self._at_ns = 0
        self._past: defaultdict[tuple[str, str], float] = defaultdict(float)
        """(project, kind) to the device seconds of what has ended, as they count at `at_ns`."""

    def ended(self, held: Held, end_ns: int) -> None:
        """A job holds its devices no more."""
        if end_ns > self._at_ns:
            fade = math.exp(-self._rate * (end_ns - self._at_ns) / 1e9) if self._past else 1.0
            self._past = defaultdict(float, {whose: used * fade for whose, used in self._past.items()})
            self._at_ns = end_ns
        since = self._since(held, end_ns)
        self._past[held.project, held.kind] += since * math.exp(-self._rate * (self._at_ns - end_ns) / 1e9)

    def used(self, running: Iterable[Held], now_ns: int) -> dict[tuple[str, str], float]:
        """(project, kind) to device seconds up to now, and those that the jobs which run will still take."""
        fade = math.exp(-self._rate * max(now_ns - self._at_ns, 0) / 1e9)
        used = defaultdict(float, {whose: past * fade for whose, past in self._past.items()})
        for held in running:
            left = None if held.ends_ns is None else held.ends_ns - now_ns
            used[held.project, held.kind] += self._since(held, now_ns) + expected(held.devices, left)
        return dict(used)

    def _since(self, held: Held, now_ns: int) -> float:
        """Device seconds of one job up to now, as they count now."""
        seconds = max(now_ns - held.start_ns, 0) / 1e9
        return held.devices * -math.expm1(-self._rate * seconds) / self._rate


def expected(devices: int, left_ns: int | None) -> float:
    """Device seconds that a job will take, which has so long left; None: nobody knows."""
    return devices * (ASSUMED_S if left_ns is None else max(left_ns, 0) / 1e9)


def by_share(jobs: Sequence[QueuedJob], kinds: Mapping[str, str], shares: Shares) -> Iterator[QueuedJob]:
    """Jobs of one priority, which come by age, in the order of their turns. `kinds`: a job's id to what it gets."""
    if len({job.project for job in jobs}) < 2:
        yield from jobs
        return
    lines: dict[tuple[str, str], deque[tuple[int, QueuedJob]]] = {}
    for age, job in enumerate(jobs):
        lines.setdefault((job.project, kinds.get(job.id, "")), deque()).append((age, job))
    used = dict(shares.used)

    def turn(whose: tuple[str, str]) -> tuple[float, int, tuple[str, str]]:
        return used.get(whose, 0.0) / shares.weights.get(whose[0], 1.0), lines[whose][0][0], whose

    heap = [turn(whose) for whose in lines]
    heapq.heapify(heap)
    while heap:
        whose = heap[0][2]
        _, job = lines[whose].popleft()
        yield job
        used[whose] = used.get(whose, 0.0) + expected(job.demand.devices, job.duration_ns)
        if lines[whose]:
            heapq.heapreplace(heap, turn(whose))
        else:
            heapq.heappop(heap)
