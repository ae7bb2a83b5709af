"""How stale the contributions of workers that drift were, and who was ahead of whom."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema


class StalenessQuery(Schema):
    """Of which attempt, and in how many windows of time."""

    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of the attempt. Left out: the latest."""
    windows: int = Field(default=240, ge=1, le=2_000)
    """At most so many; fewer where one answer does not hold those of so many workers."""


class StaleCounts(Schema):
    """Contributions by their staleness: of each unit in each step one."""

    contributions: int
    """That were applied."""
    mean: float | None
    """Mean staleness, in updates. Null: there are none."""
    most: int | None
    """The highest one."""
    staleness: list[int]
    """What occurred, ascending; the lowest of each class, where there are too many different ones for one answer."""
    to: list[int]
    """The highest one of each class; the same as `staleness` where none is joined with others."""
    counts: list[int]
    """Contributions that were so stale."""


class StaleWorker(StaleCounts):
    """One worker's contributions to all layers, and how far it has come."""

    worker: int
    name: str
    steps: int
    """That it has ended."""
    ahead: int
    """Steps more than the worker that has ended the fewest, now: 0 for all when all have come to the end."""
    most_ahead: int
    """The most that it has been ahead by at any time."""
    mean_over_time: list[float | None]
    """Mean staleness in each window; null: it had no contribution there."""
    steps_over_time: list[int]
    """Steps that it had ended at the end of each window."""
    ahead_over_time: list[int]
    """How many more these were than those of the worker that had ended the fewest."""


class StaleLayer(StaleCounts):
    """All workers' contributions to one layer."""

    index: int
    layer: str
    """Of layers that come in one bucket, the first has what was contributed to all of them."""


class Staleness(Schema):
    """Of one attempt."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every value; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; null: none is."""
    drifts: bool
    """Whether the job's workers do not wait for one another in every step; where they do, there is nothing to count."""
    everything: StaleCounts
    """Of all workers and layers."""
    workers: list[StaleWorker]
    layers: list[StaleLayer]
    """Those to which anything was contributed."""
    start_ns: int
    """Where the first window starts, on the attempt's clock."""
    window_ns: int
    """Width of a window. 0 where there is none."""
    most_over_time: list[int | None]
    """The highest staleness of any worker's contributions in each window; null: there was none."""
    revision: int
