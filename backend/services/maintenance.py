"""Devices are taken out of use, and given back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database, notify
from backend.db.models import Maintenance
from backend.scheduler import decide, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.maintenance import KIND
from backend.schemas import maintenance as schema
from backend.services.errors import NotFound
from backend.services.retention import DAY_NS
from backend.services.times import moment
from engine.errors import UserError

AHEAD_DAYS = 366
"""So far ahead it may be planned, at the most."""


class Maintenances:
    """Those of one database; they are made for this server's devices."""

    def __init__(
        self,
        database: Database,
        inventory: decide.Inventory,
        membership: Alone,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` wakes the scheduler."""
        self._database = database
        self._known = [device.id for device in inventory.devices]
        self._membership = membership
        self._place = membership.place
        self._changed = changed

    def all(self) -> list[schema.MaintenanceView]:
        """The oldest first."""
        with self._database.read() as session:
            held = snapshot.occupied(session, self._place)
            return [
                self._view(row, held) for row in session.scalars(select(Maintenance).order_by(Maintenance.id))
            ]

    def begin(self, asked: schema.MaintenanceRequest, who: str | None) -> schema.MaintenanceView:
        """Take devices out of use, for `who`. Raises UserError for a device that this server does not have,
        and for a moment that lies too far ahead."""
        for position, name in enumerate(asked.devices or ()):
            if name not in self._known:
                known = ", ".join(self._known)
                rule = f"this server has no such device. It has {known}"
                raise UserError(f"devices.{position}", name, rule, "Name one of them, or leave devices out")
        now = time.time_ns()
        begins = now if asked.begins_at is None else max(now, _unix_ns(asked.begins_at))
        if begins > now + AHEAD_DAYS * DAY_NS:
            rule = f"lies more than {AHEAD_DAYS} days ahead"
            raise UserError("begins_at", str(asked.begins_at), rule, "Ask for it nearer to the time")
        row = Maintenance(
            devices=None if asked.devices is None else list(dict.fromkeys(asked.devices)),
            home=self._place.home or None,
            view=self._place.view,
            called=self._membership.called,
            begins_unix_ns=begins,
            makes_room=asked.makes_room,
            note=asked.note,
            who=who,
            created_unix_ns=now,
        )

        def write(session: Session) -> schema.MaintenanceView:
            session.add(row)
            session.flush()
            notify(session, None, KIND, {"id": row.id})
            return self._view(row, snapshot.occupied(session, self._place))

        made = self._database.writer.run(write)
        self._changed()
        return made

    def end(self, id_: int) -> None:
        """Give the devices back. Raises NotFound."""

        def write(session: Session) -> None:
            row = session.get(Maintenance, id_)
            if row is None:
                raise NotFound(f"id = {id_}: no such maintenance. GET /api/v1/maintenance lists them")
            session.delete(row)
            notify(session, None, KIND, {"id": id_})

        self._database.writer.run(write)
        self._changed()

    def _view(self, row: Maintenance, held: dict[str, decide.Occupant]) -> schema.MaintenanceView:
        home, view = row.home, row.view
        named = row.devices or (self._known if self._place.is_here(home, view) else ())
        devices = [
            self._place.device(home, view, id_) for id_ in named
        ]  # other machines' have no holders here
        holders = {run.job_id: run.job_name for id_ in devices if (run := held.get(id_)) is not None}
        return schema.MaintenanceView(
            id=row.id,
            devices=row.devices,
            server=row.called,
            begins_at=moment(row.begins_unix_ns),
            makes_room=row.makes_room,
            note=row.note,
            who=row.who,
            holders=[schema.Holder(job_id=id_, job_name=name) for id_, name in holders.items() if id_],
        )


def _unix_ns(at: datetime) -> int:
    """Without a time zone: UTC."""
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e9)
