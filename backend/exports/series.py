"""A job's series whole: answers are thinned where they have more points than a screen, so they are asked for in ranges
of steps that are not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.client import Client
from backend.schemas.links import Links
from backend.schemas.telemetry import Point

STEPS_AT_ONCE = 1_999
"""One less than an answer holds unthinned: what lies between two steps is known with the second one."""


@dataclass
class Reader:
    """Reads what it has not read before; asked again while a job runs, it goes on."""

    client: Client
    job_id: str
    attempt: int | None = None
    _next: dict[str, int] = field(default_factory=dict)
    """By series, the first step that was not read."""

    def new(self) -> Iterator[dict[str, list[Point]]]:
        """Points by series, range by range, each point once; those that are not finite are left out."""
        names = self.client.metric_names(self.job_id, attempt=self.attempt).items
        last = max((one.last_step for one in names), default=-1)
        unread = {one.name: self._next.get(one.name, 0) for one in names}
        first = min(
            (unread[one.name] for one in names if unread[one.name] <= one.last_step), default=last + 1
        )
        for begin in range(first, last + 1, STEPS_AT_ONCE):
            end = begin + STEPS_AT_ONCE
            found = self.client.metrics(
                self.job_id, attempt=self.attempt, step_from=begin, step_to=end
            ).series
            yield {name: self._unread(name, points) for name, points in found.items()}

    def _unread(self, name: str, points: Sequence[Point]) -> list[Point]:
        first = self._next.get(name, 0)
        unread = [point for point in points if point.step >= first]
        if unread:
            self._next[name] = unread[-1].step + 1
        return [point for point in unread if point.value is not None]


def utilization_by_step(links: Links, ends: Mapping[int, int]) -> dict[str, list[Point]]:
    """By `worker 0 transport send`, the mean utilization of the bins of time that begin in each step: `ends` says when
    each step ended, in ns. Links whose rate is not known have none."""
    steps = sorted(ends)
    times = [ends[step] for step in steps]
    found: dict[str, list[Point]] = {}
    for link in links.links:
        sums: dict[int, list[float]] = {}
        for place, used in enumerate(link.utilization or ()):
            at = bisect_left(times, links.start_ns + place * links.bin_ns)
            if at < len(steps):
                sums.setdefault(steps[at], []).append(used)
        points = [
            Point(step=step, value=sum(values) / len(values), time_ns=ends[step])
            for step, values in sums.items()
        ]
        if points:
            found[f"{link.party_name} {link.interface} {link.direction}"] = points
    return found


def flat(value: Any, name: str = "") -> dict[str, bool | int | float | str]:
    """A specification as one level, `training.global_batch`; what is null is left out."""
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = dict(enumerate(value)).items()
    else:
        return {} if value is None else {name: value if isinstance(value, bool | int | float) else str(value)}
    return {
        key: one
        for at, below in items
        for key, one in flat(below, f"{name}.{at}" if name else str(at)).items()
    }
