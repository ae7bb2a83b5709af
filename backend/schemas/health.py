"""How the service is."""

from __future__ import annotations

from backend.schemas.base import Schema
from backend.schemas.session import Kind


class JobCounts(Schema):
    """Jobs that are not at their end."""

    running: int
    """Between placing and their end."""
    queued: int
    """Waiting for devices."""


class Health(Schema):
    """Answered without touching anything that could wait."""

    status: str
    """`ok`, or what is wrong."""
    version: str
    access: Kind
    """Whom the server answers: as in `SessionView`."""
    database: str
    """`sqlite` or `postgresql`."""
    uptime_s: float
    jobs: JobCounts
