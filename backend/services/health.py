"""Whether the service works."""

from __future__ import annotations

import time

from sqlalchemy import func, make_url, select

from backend.db.models import Job
from backend.schemas.health import Health, JobCounts
from backend.services.context import Context
from backend.version import program_version

ENDS = ("succeeded", "failed", "cancelled")


def check(context: Context) -> Health:
    """Looks at the database; what fails there is the answer's error."""
    count = select(Job.state, func.count()).where(Job.state.not_in(ENDS)).group_by(Job.state)
    with context.database.read() as session:
        states = dict(session.execute(count).all())
    queued = states.pop("queued", 0)
    return Health(
        status="ok",
        version=program_version(),
        access=context.access.kind,
        database=make_url(context.database.url).get_backend_name(),
        uptime_s=round(time.monotonic() - context.started, 3),
        jobs=JobCounts(running=sum(states.values()), queued=queued),
    )
