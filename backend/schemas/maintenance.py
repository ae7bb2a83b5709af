"""Maintenance: devices that are taken out of use."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema


class MaintenanceRequest(Schema):
    """Which devices of the server that is asked, or which node, are to be taken out of use, and from when on."""

    model_config = ConfigDict(extra="forbid")

    devices: list[str] | None = Field(default=None, min_length=1, max_length=10_000)
    """Names, as `GET /devices` has them. Null: all."""
    begins_at: datetime | None = None
    """From then on no job is on them that starts now or later; without a time zone: UTC. Null, or a moment that is
    over: at once."""
    node: str | None = Field(default=None, min_length=1, max_length=200)
    """A node as a whole, by its name or number (`GET /nodes`), wherever it is: all devices of all its servers. Null:
    those of the server that is asked."""
    ends_at: datetime | None = None
    """From then on the devices are back by themselves; without a time zone: UTC. Null: when somebody ends it."""
    makes_room: bool = False
    """Jobs that run there when it begins, and have checkpoints, end with one and queue again. Others stay until they
    have ended."""
    note: str | None = Field(default=None, max_length=500)
    """What it is for."""


class Holder(Schema):
    """A job that is still there."""

    job_id: str
    job_name: str


class MaintenanceView(Schema):
    """Devices that are out of use, or will be, until its end, or until somebody ends it."""

    id: int
    devices: list[str] | None
    """Null: all of that server, or node."""
    node: str | None
    """The node that is drained as a whole, by its name. Null: only devices of that server are."""
    server: str
    """Whose devices these are, as people call it."""
    begins_at: datetime
    ends_at: datetime | None
    """Null: when somebody ends it."""
    makes_room: bool
    """Jobs with checkpoints make room when it begins."""
    note: str | None
    who: str | None
    """The user who asked for it. Null: asked where nobody is asked who they are."""
    holders: list[Holder]
    """The jobs that are on them now."""
