"""What lists can be asked for. A parameter that a list does not have is refused, not ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema

Cursor = Annotated[str | None, Field(max_length=1_000)]
Step = Annotated[int | None, Field(ge=0, le=2**31 - 1)]


class ListQuery(Schema):
    """Of every list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=50, ge=1, le=200)
    """At most so many items."""
    cursor: Cursor = None
    """`next_cursor` of the page before."""
    fields: str | None = Field(default=None, max_length=2_000)
    """Only these fields of every item, with commas, e.g. `id,state`. Left out: all."""


class JobFilter(Schema):
    """Which jobs."""

    model_config = ConfigDict(extra="forbid")

    state: str | None = Field(default=None, max_length=500)
    """One state, or several with commas."""
    strategy: str | None = None
    """Name of the strategy."""
    model: str | None = None
    """Name or entry point of the model."""
    dataset: str | None = None
    """Name or entry point of the data set."""
    rehearsed: bool | None = None
    """Rehearsals only, or none."""
    baseline: str | None = None
    """Id of the job that they are compared with."""
    text: str | None = Field(default=None, max_length=200)
    """Part of a name, or the beginning of an id: at least four characters of it."""
    created_from: datetime | None = None
    """Made then or later; without a time zone: UTC."""
    created_to: datetime | None = None
    """Made before then; without a time zone: UTC."""
    tag: str | None = Field(default=None, max_length=200)
    """With this tag."""
    owner: str | None = Field(default=None, max_length=100)
    """Made by this user."""
    tagged: bool | None = None
    """With any tag, or without one."""
    race: str | None = None
    """Id of the race that they ran in."""
    raced: bool | None = None
    """Of any race, or of none."""


class JobQuery(ListQuery, JobFilter):
    """Which jobs, in which order."""

    sort: str | None = Field(default=None, max_length=100)
    """A column, e.g. `loss`, or `-loss` for the largest first: name, state, strategy, model, workers, step, loss,
    test_accuracy, samples_per_s, speed_up, created_at, duration or priority. Jobs without a value come last. Figures
    are some seconds old. Left out: the newest jobs first."""


class RaceQuery(ListQuery):
    """Which races."""

    text: str | None = Field(default=None, max_length=200)
    """Part of a name, or the beginning of an id: at least four characters of it."""


GroupedBy = Literal["model", "strategy", "tag", "race"]


class GroupQuery(JobFilter):
    """Which jobs, and by what they are put together."""

    by: GroupedBy
    """A job with several tags is in several groups."""


class AttemptQuery(ListQuery):
    """Which attempts of a job."""

    state: str | None = Field(default=None, max_length=500)
    """One state, or several with commas."""


class HistoryQuery(ListQuery):
    """Which changes of state of a job."""

    attempt: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Only those of the attempt with this number; 0: only the job's own."""
    to_state: str | None = Field(default=None, max_length=500)
    """Only changes to this state, or to one of several with commas."""


class EventQuery(Schema):
    """Which detailed events of a job."""

    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of the attempt that recorded them. Left out: the latest."""
    worker: int | None = Field(default=None, ge=0, le=2**15 - 1)
    """Number of the party that recorded them."""
    kind: str | None = Field(default=None, max_length=200)
    """One kind, or several with commas, e.g. `wait,receive`."""
    layer: int | None = Field(default=None, ge=-1, le=2**15 - 1)
    """Index of the layer; -1: belongs to no layer."""
    step_from: Step = None
    """The first step."""
    step_to: Step = None
    """The last step. Without a range: the ten newest steps."""
    limit: int = Field(default=5_000, ge=1, le=20_000)
    """At most so many events."""
    cursor: Cursor = None
    """`next_cursor` of the answer before."""
    fields: str | None = Field(default=None, max_length=2_000)
    """Only these columns, with commas, e.g. `kind,start_ns,end_ns`. Left out: all."""
