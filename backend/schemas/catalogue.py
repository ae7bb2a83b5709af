"""What can be chosen: strategies, models, data sets, axes, devices, figures."""

from __future__ import annotations

from typing import Any, Literal

from backend.schemas.base import Schema


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
    description: str
    """For people, e.g. the card's name."""
    job_id: str | None
    """The job that occupies it. Null: free."""
    job_name: str | None


class FigureEntry(Schema):
    """One figure of the catalogue."""

    name: str
    title: str
    summary: str
    """What it shows."""
    definitions: dict[str, str]
    """The metrics in it, by name: what each means, in one sentence."""
