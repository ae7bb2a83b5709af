"""What can be chosen: strategies, models, data sets, axes, devices, figures."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from backend.schemas.base import Schema
from backend.schemas.jobs import State


class StrategyEntry(Schema):
    """One strategy of the catalogue."""

    name: str
    summary: str
    """What it does, in one sentence."""
    loses_when: str
    """When another strategy is the better choice."""
    source: str
    """Paper and section, or the system whose behaviour it follows."""
    proof: Literal["exact", "bounded", "convergent"]
    """The class of proof that its tests hold it to."""
    recommended: bool
    """Whether it races where nobody is named: one of each family is recommended."""
    options_schema: dict[str, Any]
    """JSON schema of its options, with defaults and descriptions."""


class SourceEntry(Schema):
    """A model or a data set of ours."""

    name: str
    summary: str
    """One line for a person who chooses."""
    source: str | None
    """Who described it."""
    purpose: str
    """`training`, or `testing` for those that exist to exercise the engine."""
    options_schema: dict[str, Any]
    """JSON schema of its options, with defaults and descriptions."""
    sample_shape: list[int] | None
    """Shape of one input sample with the default options, where it is fixed."""
    classes: int | None
    """Number of classes with the default options, where it is fixed."""


class AxisValue(Schema):
    """One value of one axis of a plan."""

    name: str
    summary: str
    available: bool
    """Whether its mechanism is built."""
    missing: str | None
    """Why not."""
    options_schema: dict[str, Any]
    """JSON schema of its own options, with defaults and descriptions. Without properties: it has none."""


class AxisEntry(Schema):
    """One axis of a plan."""

    name: str
    question: str
    """What it answers for every layer."""
    values: list[AxisValue]


class Device(Schema):
    """One device, and who is on it."""

    name: str
    """`cpu:0`, `cuda:1`, `rehearsal:0`."""
    kind: str
    """`cpu`, `cuda` or `rehearsal`: all workers of a rehearsal share one slot."""
    node: str
    """The machine that has it, as that calls itself."""
    server: str
    """The server that has it, as people call it. Servers on one machine share its GPUs."""
    description: str
    """For people, e.g. the card's name."""
    model: str
    """What was built, e.g. the processor's name. Empty: the machine does not say."""
    memory_bytes: int | None
    """Its own memory. Null for slots, which share the machine's."""
    job_id: str | None
    """The job that occupies it. Null: free."""
    job_name: str | None
    job_state: State | None
    workers: int
    """How many of the job's workers are on it."""
    since: datetime | None
    """When the job got it."""
    drained_at: datetime | None
    """From then on it is in maintenance: no job gets it that would not have ended. Null: it is not."""


class Waiting(Schema):
    """A job in the queue."""

    job_id: str
    job_name: str
    priority: int
    """Higher runs first."""
    since: datetime
    """When it came into the queue, or back into it."""
    kind: str | None
    """The kind of device that it waits for. Null: this server has none for it."""
    devices: int
    """How many of them it needs at once."""
    reason: str | None
    """Code of why it waits. Null: the scheduler has not looked at it yet."""
    message: str | None
    """The scheduler's own words: for what it waits, and behind whom."""
    retry_at: datetime | None
    """Not before this is it tried again. Null: it may start at any time."""
    starts_at: datetime | None
    """When it starts on this server if every job that runs, or is listed before it, takes as long as is expected, and
    none is added. A job that declares nothing (`duration_s`) is expected to take what three or more earlier ones took
    that were the same but for their names. Null: not known, as where nothing is known of one that it waits for."""
    starts_by: Literal["declared", "learned"] | None
    """What `starts_at` rests on: `declared`: on nothing but what jobs declared. `learned`: on what earlier jobs took,
    too. Null with it."""


class Queue(Schema):
    """What waits, in the order in which it may start."""

    items: list[Waiting]
    total: int
    """Of all jobs that wait, where they are more than are listed."""


class Lab(Schema):
    """Whether this machine can be several hosts."""

    permitted: bool
    why_not: str | None
    """What is missing. Null: nothing."""


class Word(Schema):
    """A word of the subject, explained."""

    name: str
    text: str
    """What it means, in one sentence."""
    metric: bool
    """Whether it is measured: it stands in figures and tables."""


class FigureEntry(Schema):
    """One figure of the catalogue."""

    name: str
    title: str
    summary: str
    """What it shows."""
    definitions: dict[str, str]
    """The metrics in it, by name: what each means, in one sentence."""
