"""Races as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from backend.races.spec import MemberSpec, NewMembers, RaceSpec
from backend.schemas.base import Schema, keep_schemas
from backend.schemas.jobs import Page
from backend.schemas.telemetry import Processors

keep_schemas(MemberSpec, NewMembers, RaceSpec)

State = Literal["running", "finished", "failed", "cancelled"]


class RaceSummary(Schema):
    """One row of the list of races."""

    id: str
    """Opaque; sorts by creation."""
    name: str
    owner: str | None = None
    """The user who made it. Null: made where nobody was asked who they are."""
    state: State
    """`running` until every job has ended; `failed`: every member failed, so that nothing was measured."""
    waits: str | None = None
    """Of one that is `running` and does not go on: `waits for the race 'first'`. Null: it goes on, or has ended."""
    members: list[str]
    """What each is called."""
    model: str
    """Name or entry point."""
    rehearsed: str | None
    """What compute times rest on, where they are rehearsed. Null: the jobs train."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much. Null: none is."""
    jobs: int
    """How many jobs it has in all."""
    jobs_ended: int
    jobs_failed: int
    """How many of those failed."""
    decided: bool
    """Whether under some condition two members have ended enough rounds for a verdict."""
    created_at: datetime
    ended_at: datetime | None


class Limit(Schema):
    """What limits a job, by `engine.telemetry.limits`."""

    kind: Literal["input", "compute", "port", "processors", "waiting"]
    """`input`: workers wait for their data. `port`: the link is the bottleneck. `processors`: those of this machine.
    `waiting`: latency, or rounds that follow one another."""
    sentence: str
    """With its numbers: `port: workers wait 58 % of the step; meanwhile the busiest port is 94 % busy; processors 41 %
    busy`."""
    crowded: bool
    """Others than the job had more of the machine's processors than it: a quieter machine would tell more."""


class Standing(Schema):
    """One member under one condition."""

    member: int
    """Its place among the race's members, from 0."""
    name: str
    rank: int | None
    """1: the fastest, and whoever cannot be told apart from it; the next place has the next one, and whoever cannot be
    told apart from that, and so on. Null: it has no place, because it failed in a round, has no figures, or too few
    rounds that the others ran, too; `remark` says why."""
    tied: bool = False
    """Whether others have the same place, because they cannot be told apart."""
    iteration_ms: float | None
    """Geometric mean over `rounds` of the median time of an iteration, the slowest worker's. Of those that have a
    place it is over the same rounds."""
    samples_per_s: float | None
    """Throughput, the geometric mean over the same rounds: of each worker its mean samples per step over its own median
    iteration, summed. So it is more than the batch over `iteration_ms` where workers are not equally fast."""
    samples_low: float | None
    """Ends of its 95 % confidence interval over rounds. Null with fewer than three."""
    samples_high: float | None
    exposed_ms: float | None
    """Exposed communication: `iteration_ms` times the mean over rounds of its share of an iteration."""
    times_fastest: float | None
    """Its iteration time over the fastest one's, over the rounds that both ran. Null: it is not compared with it."""
    low: float | None
    """Ends of that ratio's interval. In 95 of 100 such races every interval of the ranking holds the true value. Null
    with fewer than three rounds, and of the fastest itself."""
    high: float | None
    significant: bool
    """Whether it is slower than the fastest by more than chance; never with fewer than three rounds."""
    unsure: bool = False
    """Whether there are too few rounds to tell: it is not `significant`, and its interval leaves room for more than
    5 %. Never with fewer than three rounds, which tell nothing."""
    missing: int | None = None
    """If `unsure`: so many more rounds that differ as these do would tell. Null: more than 100."""
    speed_up: float | None = None
    """How many times as fast it is as the baseline, the race's first member, over the rounds that both ran. Null: the
    two are not compared; of the baseline itself."""
    speed_up_low: float | None = None
    """Ends of that ratio's interval, which belongs to the same 95 of 100 races. Null with fewer than three rounds."""
    speed_up_high: float | None = None
    rounds: int
    """How many rounds this rests on."""
    processors: Processors | None
    """How busy the machine's processors were while its measured steps ran, the mean over rounds. Null: not known."""
    port_busy: float | None
    """How busy some port of a link was at each moment that workers waited, as a share (0 to 1) of its rate: not always
    the same port. Null: no rate is known, or nothing was waited for."""
    one_port_busy: float | None
    """The same of the one port that was busiest over all that time, by itself. Less than `port_busy` where ports take
    turns."""
    limit: Limit | None
    """What limits it. Null: no step was measured yet."""
    out: str | None
    """Why it takes part no more: value, rule and remedy of what it was refused for, or how its job ended."""
    remark: str | None
    """What to know of its place, or why it has none: `failed in round 2: 1 round is too few to rank it`. Of who failed
    after three rounds or more: how it compares with the fastest over the rounds that both ran."""
    joined_s: float | None
    """How long after the first member it began, where it joined later. The rounds that were over by then it ran by
    itself: they are compared with nobody's. Null: it was there from the beginning."""
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
    headline: str = ""
    """What `sentence` begins with, and what matters most of it."""
    gains: str | None = None
    """What each gains over the race's first member, where the sentence does not say it: `Speed-up over
    parameter-server, the first that was named: p3 1.32x (1.19x to 1.46x)`."""
    standings: list[Standing]


class Condition(Schema):
    """Of a race: what a comparison holds equal. Null: as the race's job says."""

    rate: str | None = None
    workers: int | None = None
    batch: int | None = None


class Suggestion(Schema):
    """What to try next. One of the fields below `reason` says what it would take."""

    text: str
    """`Let p3 race`; of a race that has ended, `Race again with p3`."""
    reason: str
    """By which figures."""
    member: MemberSpec | None = None
    """Who might join: `POST /api/v1/races/{race_id}/members` takes it in `members`. Of a race that has ended: who might
    be one member more of another race."""
    condition: Condition | None = None
    """Where another race might be run."""
    rounds: int | None = None
    """How many rounds another race might have."""
    fidelity: Literal["rehearse"] | None = None
    """What another race's job might be."""


class RaceView(RaceSummary):
    """One race, whole."""

    spec: RaceSpec
    rankings: list[Ranking]
    crossings: list[str]
    """At which rates the order changes: `ddp catches up with p3 between 500 Mbit/s and 1 Gbit/s, at about 900 Mbit/s`.
    Only where it is certain at both who is faster."""
    next: list[Suggestion]
    """What to try next, at most three; empty while nothing is known."""
    round: int
    """The round of the job that runs, from 1, or of the last one that was made. A member that joined later begins
    with the first round."""
    running_job: str | None
    """The job that is queued or runs now."""
    notes: list[str]
    """What else to know of its figures: that all jobs failed, that some were deleted."""
    left_s: float | None
    """About how long it takes until its end, by what jobs took from their starts. Null: none has succeeded yet."""


class RacePage(Page):
    """A page of races, newest first."""

    items: list[RaceSummary]
