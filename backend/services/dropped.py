"""Where detail of a job is missing: what its processes recorded, counted in the totals, and could not keep."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt
from backend.db.models import DroppedDetail as Row
from backend.schemas.jobs import DroppedDetail


def read(session: Session, attempt: Attempt) -> list[DroppedDetail]:
    """Ranges of steps by party, neighbouring ones as one."""
    rows = select(Row).where(Row.attempt_id == attempt.id).order_by(Row.party, Row.first_step, Row.last_step)
    ranges: list[Row] = []
    for row in session.scalars(rows):
        last = ranges[-1] if ranges else None
        if last is not None and last.party == row.party and row.first_step <= last.last_step + 1:
            ranges[-1] = Row(
                party=last.party,
                first_step=last.first_step,
                last_step=max(last.last_step, row.last_step),
                events=last.events + row.events,
            )
        else:
            ranges.append(row)
    return [_shown(row, attempt.parties) for row in ranges]


def _shown(row: Row, parties: list[str]) -> DroppedDetail:
    party = parties[row.party] if row.party < len(parties) else f"party {row.party}"
    steps = (
        f"step {row.first_step}"
        if row.first_step == row.last_step
        else f"steps {row.first_step} to {row.last_step}"
    )
    return DroppedDetail(
        party=party,
        first_step=row.first_step,
        last_step=row.last_step,
        events=row.events,
        text=f"{party}: detail of {steps} was dropped ({row.events:,} events) for want of room; totals are complete",
    )
