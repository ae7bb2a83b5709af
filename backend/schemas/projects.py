"""Projects, which share the devices."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from backend.scheduler.quota import MOST
from backend.schemas.base import Schema

Limit = Annotated[int | None, Field(ge=0, le=MOST)]


class ProjectRequest(Schema):
    """What a project is to have."""

    model_config = ConfigDict(extra="forbid")

    weight: float = Field(default=1.0, ge=0.001, le=1_000)
    """Of its share: with twice as much it gets twice as many device seconds while others wait, too."""
    cpu: Limit = None
    """The most CPU slots that its jobs hold at once, over all servers. Null: no limit."""
    cuda: Limit = None
    """The same of GPUs."""
    rehearsal: Limit = None
    """The same of slots for rehearsals."""


class ProjectView(ProjectRequest):
    """A project, and what it has."""

    name: str
    held: dict[str, int]
    """Kind of device to how many its jobs hold now."""
    used_s: dict[str, float]
    """Kind of device to the device seconds that count for its share: those used, of which half count after a day, and
    those that its jobs which run are taken to use still."""
    waiting: int
    """Jobs of it in the queue."""
