"""The scheduler's decisions on a clock that jumps: what happens when every job takes as long as it is said to.

It is the loop without processes and database: the same `decide`, over the same state. The queue's estimates come from
it, and the simulated day.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from backend.scheduler import durations
from backend.scheduler.decide import Occupant, QueuedJob, State, decide
from backend.scheduler.fair_share import Held, Ledger, Shares
from backend.scheduler.instructions import Preempt, Start

CHECKPOINT_NS = 5 * 10**9
"""From when a job is asked to make room to its end."""


@dataclass(frozen=True, kw_only=True)
class Happened:
    """What happens to a job that waited."""

    what: Literal["started", "ended", "preempted"]
    at_ns: int
    job: QueuedJob
    devices: int


@dataclass(kw_only=True)
class _Run:
    """A job that runs."""

    occupant: Occupant
    devices: tuple[str, ...]
    kind: str
    job: QueuedJob | None = None
    """None: it ran from the beginning."""
    ends: int = 0
    """The number of the event that is its end: what was said before does not hold any more."""

    @property
    def held(self) -> Held:
        """What its project is charged."""
        who = self.occupant
        return Held(
            project=who.project,
            kind=self.kind,
            devices=len(self.devices),
            start_ns=who.since_unix_ns,
            ends_ns=who.ends_unix_ns,
        )


class Virtual:
    """A server's queue and devices."""

    def __init__(
        self,
        state: State,
        *,
        takes: Callable[[QueuedJob], int | None] = lambda job: job.duration_ns,
        told: Callable[[QueuedJob], QueuedJob] = lambda job: job,
        yields: Callable[[QueuedJob], bool] = lambda _: False,
        ledger: Ledger | None = None,
        patience: int | None = None,
    ) -> None:
        """`state`: what it begins with; jobs that run there end when they are expected to, or never. `takes`: how long
        a job really takes, from now on, in ns; None: it never ends. `told`: the job as the scheduler knows it when it
        comes. `yields`: whether a job that starts may be asked to make room. `ledger`: of what is used; None: shares
        stay as they are. `patience`: so many of a project's jobs of one priority are looked at, the first ones."""
        self._state, self._takes, self._told, self._yields = state, takes, told, yields
        self._ledger, self._patience = ledger, patience
        self._kinds = {device.id: device.kind for device in state.inventory.devices}
        self._numbers = itertools.count(1)
        self._events: list[tuple[int, int, QueuedJob | str]] = []
        """When, a number, and who comes (a job) or ends (an id)."""
        self._queue: dict[str, QueuedJob] = {job.id: job for job in state.queued}
        self._occupied = dict(state.occupied)
        self._runs: dict[str, _Run] = {}
        for id_, occupant in self._occupied.items():
            run = self._runs.setdefault(occupant.job_id, _Run(occupant=occupant, devices=(), kind=""))
            run.devices, run.kind = (*run.devices, id_), self._kinds.get(id_, "")
        for run in self._runs.values():
            now, ends = state.now_unix_ns, run.occupant.ends_unix_ns
            if run.occupant.leaving or (ends is not None and ends >= now):
                self._will_end(run, now if run.occupant.leaving else ends or now)

    def run(self, arrivals: Iterable[QueuedJob] = ()) -> Iterator[Happened]:
        """What happens from the state's moment on, until nothing more does. A job comes at its `queued_unix_ns`."""
        for job in arrivals:
            self._push(job.queued_unix_ns, job)
        yield from self._pass(self._state.now_unix_ns)
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, number, who = heapq.heappop(self._events)
                if isinstance(who, QueuedJob):
                    self._queue[who.id] = self._told(who)
                elif (run := self._runs.get(who)) is not None and run.ends == number:
                    yield from self._end(run, now)
            yield from self._pass(now)

    def _pass(self, now: int) -> Iterator[Happened]:
        if not self._queue:
            return
        shares = self._state.shares
        if self._ledger is not None:
            used = self._ledger.used((run.held for run in self._runs.values()), now)
            shares = Shares(used=used, weights=shares.weights)
        state = replace(
            self._state, queued=self._first(), occupied=self._occupied, now_unix_ns=now, shares=shares
        )
        for instruction in decide(state):
            if isinstance(instruction, Start):
                devices = tuple(dict.fromkeys(device.id for device in instruction.devices))
                yield self._start(self._queue.pop(instruction.job_id), devices, now)
            elif isinstance(instruction, Preempt):
                run = self._runs[instruction.job_id]
                run.occupant = replace(run.occupant, leaving=True)
                self._occupied.update(dict.fromkeys(run.devices, run.occupant))
                self._will_end(run, now + CHECKPOINT_NS)

    def _first(self) -> tuple[QueuedJob, ...]:
        """The jobs that are looked at: of each project and priority the oldest, in the order in which they came."""
        if self._patience is None or len(self._queue) <= self._patience:
            return tuple(self._queue.values())
        seen: dict[tuple[str, int], int] = {}
        first = []
        for job in self._queue.values():
            whose = job.project, job.priority
            seen[whose] = seen.get(whose, 0) + 1
            if seen[whose] <= self._patience:
                first.append(job)
        return tuple(first)

    def _start(self, job: QueuedJob, devices: tuple[str, ...], now: int) -> Happened:
        occupant = Occupant(
            job_id=job.id,
            job_name=job.name,
            alone=job.demand.alone,
            project=job.project,
            priority=job.priority,
            since_unix_ns=now,
            ends_unix_ns=None if job.duration_ns is None else now + job.duration_ns,
            yields=self._yields(job),
        )
        run = _Run(occupant=occupant, devices=devices, kind=self._kinds[devices[0]], job=job)
        self._runs[job.id] = run
        self._occupied.update(dict.fromkeys(devices, occupant))
        if (takes := self._takes(job)) is not None:
            self._will_end(run, now + takes)
        return Happened(what="started", at_ns=now, job=job, devices=len(devices))

    def _end(self, run: _Run, now: int) -> Iterator[Happened]:
        job, who = run.job, run.occupant
        del self._runs[who.job_id]
        for device in run.devices:
            del self._occupied[device]
        if self._ledger is not None:
            self._ledger.ended(run.held, now)
        if job is None:
            return
        what: Literal["ended", "preempted"] = "preempted" if who.leaving else "ended"
        yield Happened(what=what, at_ns=now, job=job, devices=len(run.devices))
        if who.leaving:
            left = durations.left(job.duration_ns, now - who.since_unix_ns)
            self._queue[job.id] = replace(job, queued_unix_ns=now, duration_ns=left, asks=False)

    def _will_end(self, run: _Run, at_ns: int) -> None:
        run.ends = self._push(at_ns, run.occupant.job_id)

    def _push(self, at_ns: int, who: QueuedJob | str) -> int:
        number = next(self._numbers)
        heapq.heappush(self._events, (at_ns, number, who))
        return number


def forecast(state: State) -> dict[str, int]:
    """When jobs that wait will start (Unix, ns), by what is known of how long jobs take, if nobody comes and nobody
    leaves; those of which nobody knows are left out."""
    happened = Virtual(state).run()
    return {one.job.id: one.at_ns for one in happened if one.what == "started"}
