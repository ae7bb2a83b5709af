"""A day's jobs, from a seed.

Arrivals are a Poisson process whose rate follows the day: given their number, they are drawn from its density. People
submit the same things again and again, so each job is a run of one of its project's specifications, which has a size (a
power of two, half as often for twice as many workers) and a duration (log-normal). A run takes that long, give or take
a tenth. Half of the jobs declare how long they take, mostly too much, as the f-model of Mu'alem and Feitelson (IEEE
TPDS 2001) has it: between once and `MOST_PADDED` times; one in twenty declares too little. Durations are scaled at the
end, so that all jobs together ask for `load` of what the devices can give in the day.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from backend.scheduler.decide import Demand, QueuedJob

DAY_NS = 24 * 3600 * 10**9
PROJECTS = {"vision": 0.55, "speech": 0.2, "language": 0.15, "robots": 0.07, "interns": 0.03}
"""Their parts of all jobs; each is to have the same share of the devices."""
SPECIFICATIONS = 40
"""Of each project."""
SIZES = (1, 2, 4, 8, 16, 32)
SIGMA = 1.2
"""Of the logarithm of a specification's duration."""
MOST_PADDED = 4.0
DECLARED, SHORT, URGENT, SAVING = 0.5, 0.05, 0.05, 0.6
"""Parts of the jobs that declare a duration, declare too little, have a higher priority, and have checkpoints."""


@dataclass(frozen=True, kw_only=True)
class DayJob:
    """One job of the day."""

    queued: QueuedJob
    """With the duration that it declares; None: it declares none."""
    takes_ns: int
    """How long it really runs."""
    specification: str
    saves: bool
    """It has checkpoints, so it can make room."""


@dataclass(frozen=True, kw_only=True)
class Day:
    """What is asked for."""

    jobs: int = 10_000
    devices: int = 128
    load: float = 0.85
    seed: int = 1


def make(day: Day) -> list[DayJob]:
    """The day's jobs, by arrival."""
    draw = random.Random(day.seed)
    specifications = {
        project: [
            (draw.choices(SIZES, [1 / size for size in SIZES])[0], math.exp(draw.gauss(0.0, SIGMA)))
            for _ in range(SPECIFICATIONS)
        ]
        for project in PROJECTS
    }
    arrivals = sorted(_moment(draw) for _ in range(day.jobs))
    raw = [_job(draw, number, at, specifications) for number, at in enumerate(arrivals)]
    asked = sum(job.takes_ns * job.queued.demand.workers for job in raw)
    scale = day.load * day.devices * DAY_NS / asked
    return [_scaled(job, scale) for job in raw]


def _moment(draw: random.Random) -> int:
    """One arrival: by day three times as many as by night."""
    while True:
        at = draw.random()
        if draw.random() < (1.0 - 0.5 * math.cos(2 * math.pi * at)) / 1.5:
            return round(at * DAY_NS)


def _job(
    draw: random.Random, number: int, at_ns: int, specifications: dict[str, list[tuple[int, float]]]
) -> DayJob:
    project = draw.choices(list(PROJECTS), list(PROJECTS.values()))[0]
    which = draw.randrange(SPECIFICATIONS)
    size, typical = specifications[project][which]
    takes = typical * 1e9 * math.exp(draw.gauss(0.0, 0.1))
    declared = None
    if draw.random() < DECLARED:
        padded = draw.uniform(0.5, 0.95) if draw.random() < SHORT else draw.uniform(1.0, MOST_PADDED)
        declared = round(takes * padded)
    queued = QueuedJob(
        id=f"{number:05}",
        name=f"{project} {which}",
        demand=Demand(workers=size, device="cuda"),
        priority=10 if draw.random() < URGENT else 0,
        queued_unix_ns=at_ns,
        project=project,
        duration_ns=declared,
    )
    name = f"{project} {which}"
    return DayJob(queued=queued, takes_ns=round(takes), specification=name, saves=draw.random() < SAVING)


def _scaled(job: DayJob, scale: float) -> DayJob:
    declared = job.queued.duration_ns
    queued = replace(job.queued, duration_ns=None if declared is None else round(declared * scale))
    return replace(job, queued=queued, takes_ns=max(round(job.takes_ns * scale), 1))
