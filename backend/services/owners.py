"""Whose a job or a race is."""

from __future__ import annotations

from sqlalchemy import select

from backend.db import Database
from backend.db.models import Job, Race

KINDS = {"job_id": Job.owner, "race_id": Race.owner}
"""By the parameter of an address that names such a thing."""


def owner_of(database: Database, parameter: str, id_: str) -> str | None:
    """The user who made it. None: nobody in particular, or there is no such thing."""
    column = KINDS[parameter]
    with database.read() as session:
        return session.scalar(select(column).where(column.class_.id == id_))
