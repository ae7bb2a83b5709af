"""The race of several jobs."""

from __future__ import annotations

from typing import Any

from backend.schemas.base import Schema
from backend.schemas.jobs import JobSummary


class StepRange(Schema):
    """Steps that can be shown: those of which all jobs kept every event. Null: there is none (yet)."""

    min: int | None
    max: int | None
    previous: int | None
    """The one before the step shown."""
    next: int | None
    """The one after it."""


class Race(Schema):
    """Two or more jobs on one time axis."""

    headline: str
    """Computed: who is ahead, by how much, and why."""
    figure: dict[str, Any]
    """A Plotly figure."""
    jobs: list[JobSummary]
    """In the order asked for."""
    step: int | None
    """The step shown. Null: there is none yet that all have."""
    steps: StepRange
    """What `step` may be."""
    aligned: bool
    """Whether all jobs start at the same point of the time axis."""
