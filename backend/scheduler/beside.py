"""Where the jobs of a race ran, so that its other jobs run there, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job, ServerRow
from backend.scheduler.place import Place


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Where the jobs of one race ran so far."""

    devices: tuple[str, ...] = ()
    """As this place calls them, the first ones first: those of other machines are none of its own."""
    server: str | None = None
    """The server at which its latest job was placed, as people call it, where that is another one which lives: the
    race's other jobs wait for it."""


def beside(session: Session, place: Place, races: Collection[str]) -> Mapping[str, Beside]:
    """By race, of these."""
    found = {}
    for race in sorted(races):
        query = select(Attempt.devices, Attempt.home, Attempt.view).join(Job)
        mine = Job.idempotency_key.startswith(f"race {race} ", autoescape=True)
        rows = session.execute(query.where(mine).order_by(Attempt.id)).all()
        here = dict.fromkeys(place.device(home, view, id_) for devices, home, view in rows for id_ in devices)
        server = None
        if rows and place.shared and rows[-1].home not in {None, place.home}:
            lives = select(ServerRow.called).where(ServerRow.home == rows[-1].home)
            server = session.scalar(lives)
        found[race] = Beside(devices=tuple(here), server=server)
    return found
