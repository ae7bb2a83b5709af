"""What came of a day: how busy the devices were, how long jobs waited, and how evenly projects were served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from backend.scheduler.day.jobs import DAY_NS
from backend.scheduler.day.play import Played

HOUR_NS = 3600 * 10**9
SHORTEST_S = 10.0
"""A job that runs for less counts as one of this length in the bounded slowdown (Feitelson and Rudolph, JSSPP 1998)."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Of one day under some rules."""

    utilization: float
    """Of all devices over the 24 hours in which jobs came, as a share."""
    wait_mean_s: float
    wait_median_s: float
    wait_p95_s: float
    slowdown: float
    """Bounded, the mean over jobs: (wait + run) / max(run, 10 s), 1 at least. All time without devices is a wait."""
    fairness: float
    """Jain's index over the device time of the projects that had jobs waiting for at least half of an hour, the mean
    over such hours with two projects or more: 1 where all got the same. NaN where there is no such hour."""
    urgent_mean_s: float
    """Mean wait of the jobs with the higher priority."""
    preemptions: int
    last_end_h: float
    """When the last job ended, in hours from the day's beginning."""


def measure(played: Sequence[Played], devices: int) -> Measures:
    """Of a day that has been played to its end."""
    waits = sorted(one.waited_ns / 1e9 for one in played)
    segments = [(one, start, end) for one in played for start, end in one.segments]
    within = sum(
        one.job.queued.demand.devices * (min(end, DAY_NS) - start)
        for one, start, end in segments
        if start < DAY_NS
    )
    urgent = [one.waited_ns / 1e9 for one in played if one.job.queued.priority > 0]
    return Measures(
        utilization=within / (devices * DAY_NS),
        wait_mean_s=fmean(waits),
        wait_median_s=median(waits),
        wait_p95_s=waits[min(round(0.95 * len(waits)), len(waits) - 1)],
        slowdown=fmean(_slowdown(one) for one in played),
        fairness=_fairness(played),
        urgent_mean_s=fmean(urgent) if urgent else float("nan"),
        preemptions=sum(len(one.segments) - 1 for one in played),
        last_end_h=max(end for _, _, end in segments) / HOUR_NS,
    )


def jain(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything (Jain, Chiu and Hawe, DEC-TR-301,
    1984); 1 where nobody has anything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _slowdown(one: Played) -> float:
    ran = sum(end - start for start, end in one.segments) / 1e9
    total = (one.segments[-1][1] - one.job.queued.queued_unix_ns) / 1e9
    return max(total / max(ran, SHORTEST_S), 1.0)


def _fairness(played: Sequence[Played]) -> float:
    got: dict[tuple[int, str], float] = {}
    waits: dict[str, list[tuple[int, int]]] = {}
    for one in played:
        project, devices = one.job.queued.project, one.job.queued.demand.devices
        waiting_since = one.job.queued.queued_unix_ns
        for start, end in one.segments:
            waits.setdefault(project, []).append((waiting_since, start))
            waiting_since = end
            for hour, ns in _by_hour(start, end):
                got[hour, project] = got.get((hour, project), 0.0) + devices * ns
    backlogged: dict[int, list[str]] = {}
    for project, spans in waits.items():
        hours: dict[int, int] = {}
        for start, end in _merged(spans):
            for hour, ns in _by_hour(start, end):
                hours[hour] = hours.get(hour, 0) + ns
        for hour, ns in hours.items():
            if ns >= HOUR_NS // 2:
                backlogged.setdefault(hour, []).append(project)
    indices = [
        jain([got.get((hour, project), 0.0) for project in projects])
        for hour, projects in backlogged.items()
        if len(projects) > 1
    ]
    return fmean(indices) if indices else float("nan")


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Their union, without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _by_hour(start: int, end: int) -> list[tuple[int, int]]:
    """How much of each hour a span covers."""
    parts = []
    while start < end:
        hour = start // HOUR_NS
        until = min(end, (hour + 1) * HOUR_NS)
        parts.append((hour, until - start))
        start = until
    return parts
