"""Races as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from backend.races.spec import RaceSpec
from backend.schemas.base import Schema
from backend.schemas.jobs import Page

State = Literal["running", "finished", "cancelled"]


class RaceSummary(Schema):
    """One row of the list of races."""

    id: str
    """Opaque; sorts by creation."""
    name: str
    state: State
    """`running` until every job has ended."""
    members: list[str]
    """What each is called."""
    model: str
    """Name or entry point."""
    rehearsed: str | None
    """What compute times rest on, where they are rehearsed. Null: the jobs train."""
    jobs: int
    """How many jobs it has in all."""
    jobs_ended: int
    created_at: datetime
    ended_at: datetime | None


class Standing(Schema):
    """One member under one condition."""

    member: int
    """Its place among the race's members, from 0."""
    name: str
    rank: int | None
    """1: the fastest, and whoever cannot be told apart from it. Null: it has no figures yet, or never will."""
    iteration_ms: float | None
    """Geometric mean over rounds of the median time of an iteration."""
    samples_per_s: float | None
    """Throughput, likewise."""
    exposed_ms: float | None
    """Exposed communication of a step, likewise."""
    times_fastest: float | None
    """Its iteration time over the fastest one's, round by round."""
    low: float | None
    """Ends of that ratio's interval. Over all comparisons of this ranking, the true values are covered in 95 of 100
    cases. Null with fewer than two rounds, and of the fastest itself."""
    high: float | None
    significant: bool
    """Whether it is slower than the fastest by more than chance; never with fewer than three rounds."""
    rounds: int
    """How many rounds this rests on."""
    out: str | None
    """Why it takes part no more: value, rule and remedy of what it was refused for, or how its job ended."""
    job_ids: list[str]
    """Its jobs, by round."""


class Ranking(Schema):
    """All members under one condition, fastest first; those without figures last."""

    condition: str
    """`100Mbit, 4 workers`; empty where the race's job says it all."""
    rate: str | None
    workers: int | None
    batch: int | None
    sentence: str
    """Who is ahead, by how much, and why; or what is missing."""
    standings: list[Standing]


class RaceView(RaceSummary):
    """One race, whole."""

    spec: RaceSpec
    rankings: list[Ranking]
    crossings: list[str]
    """At which rates the order changes: `ddp catches up with p3 at 900 Mbit/s`."""
    round: int
    """The round that runs, from 1; the last one when all have ended."""
    running_job: str | None
    """The job that is queued or runs now."""
    left_s: float | None
    """About how long it takes until its end, by the jobs that have ended. Null: none has."""


class RacePage(Page):
    """A page of races, newest first."""

    items: list[RaceSummary]
