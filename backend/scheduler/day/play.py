"""A day played by rules: the scheduler's own decisions, over jobs whose real durations only the clock knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backend.scheduler import durations, victims
from backend.scheduler.day.jobs import DayJob
from backend.scheduler.decide import Device, Inventory, QueuedJob, State
from backend.scheduler.fair_share import Ledger
from backend.scheduler.virtual import Happened, Virtual

PATIENCE = 50
"""Jobs of each project and priority that are looked at."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which of the scheduler's rules hold; with none of them, it is first in, first out."""

    name: str
    priorities: bool = False
    backfill: bool = False
    fair_share: bool = False
    preemption: bool = False


FIFO = Rules(name="FIFO")
ALL = (
    FIFO,
    Rules(name="backfill", backfill=True),
    Rules(name="backfill, fair share", backfill=True, fair_share=True),
    Rules(name="backfill, fair share, priorities", backfill=True, fair_share=True, priorities=True),
    Rules(name="all, with preemption", backfill=True, fair_share=True, priorities=True, preemption=True),
)


@dataclass(kw_only=True)
class Played:
    """What became of one job."""

    job: DayJob
    segments: list[tuple[int, int]] = field(default_factory=list)
    """From when to when it ran, in ns; several where it made room."""

    @property
    def waited_ns(self) -> int:
        """Before its first start."""
        return self.segments[0][0] - self.job.queued.queued_unix_ns


def play(jobs: Sequence[DayJob], devices: int, rules: Rules) -> list[Played]:
    """What becomes of each job, in the order in which they were given."""
    return list(_Play(jobs, devices, rules).played.values())


class _Play:
    def __init__(self, jobs: Sequence[DayJob], devices: int, rules: Rules) -> None:
        self._rules = rules
        self.played = {job.queued.id: Played(job=job) for job in jobs}
        self._earlier: dict[str, list[int]] = {}
        """Of each specification, how long its jobs that ended ran, the newest first."""
        self._begun: dict[str, int] = {}
        inventory = Inventory(
            devices=tuple(Device(id=f"cuda:{n}", kind="cuda", name="GPU") for n in range(devices))
        )
        state = State(queued=(), inventory=inventory, occupied={}, backfill=rules.backfill)
        virtual = Virtual(
            state,
            takes=self._left_ns,
            told=self._told,
            yields=self._yields,
            ledger=Ledger() if rules.fair_share else None,
            patience=PATIENCE,
        )
        for happened in virtual.run(job.queued for job in jobs):
            self._note(happened)

    def _left_ns(self, job: QueuedJob) -> int:
        played = self.played[job.id]
        return max(played.job.takes_ns - sum(end - start for start, end in played.segments), 1)

    def _told(self, job: QueuedJob) -> QueuedJob:
        earlier = self._earlier.get(self.played[job.id].job.specification, ())
        declared_s = None if job.duration_ns is None else job.duration_ns / 1e9
        return replace(
            job,
            duration_ns=durations.expected(declared_s, earlier),
            priority=job.priority if self._rules.priorities else 0,
            project=job.project if self._rules.fair_share else "",
        )

    def _yields(self, job: QueuedJob) -> bool:
        played = self.played[job.id]
        return self._rules.preemption and played.job.saves and len(played.segments) < victims.MOST

    def _note(self, happened: Happened) -> None:
        id_ = happened.job.id
        if happened.what == "started":
            self._begun[id_] = happened.at_ns
            return
        played = self.played[id_]
        played.segments.append((self._begun.pop(id_), happened.at_ns))
        if happened.what == "ended" and len(played.segments) == 1:
            earlier = self._earlier.setdefault(played.job.specification, [])
            earlier.insert(0, happened.at_ns - played.segments[0][0])
            del earlier[durations.NEWEST :]
