"""Devices are taken out of use, and given back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database, notify
from backend.db.models import Maintenance
from backend.scheduler import decide, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.maintenance import KIND
from backend.scheduler.place import is_own
from backend.schemas import maintenance as schema
from backend.services import nodes
from backend.services.errors import NotFound
from backend.services.retention import DAY_NS
from backend.services.times import moment, moment_or_none
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
            now = time.time_ns() - self._membership.ahead_ns(session)
            rows = select(Maintenance).where(snapshot.goes_on(now)).order_by(Maintenance.id)
            return [self._view(session, row) for row in session.scalars(rows)]

    def begin(self, asked: schema.MaintenanceRequest, who: str | None) -> schema.MaintenanceView:
        """Take devices out of use, for `who`. Raises UserError for a device that this server does not have, for a node
        that nobody knows, for moments that lie too far ahead or in the wrong order, and where another one keeps all of
        them out of use for as long: who ended one of the two would believe that they are back."""
        for position, name in enumerate(asked.devices or ()):
            if name not in self._known:
                known = ", ".join(self._known)
                rule = f"this server has no such device. It has {known}"
                raise UserError(f"devices.{position}", name, rule, "Name one of them, or leave devices out")
        if asked.node is not None and asked.devices is not None:
            rule = "a node is drained as a whole"
            raise UserError("devices", ", ".join(asked.devices), rule, "Leave devices out, or node")
        with self._database.read() as session:
            now = time.time_ns() - self._membership.ahead_ns(session)
        begins = now if asked.begins_at is None else max(now, _unix_ns(asked.begins_at))
        ends = None if asked.ends_at is None else _unix_ns(asked.ends_at)
        for name, at, ns in (("begins_at", asked.begins_at, begins), ("ends_at", asked.ends_at, ends)):
            if ns is not None and ns > now + AHEAD_DAYS * DAY_NS:
                rule = f"lies more than {AHEAD_DAYS} days ahead"
                raise UserError(name, str(at), rule, "Ask for it nearer to the time")
        if ends is not None and ends <= begins:
            rule = f"is not after it begins, at {moment(begins)}"
            raise UserError("ends_at", str(asked.ends_at), rule, "Name a later moment, or leave it out")
        row = Maintenance(
            devices=None if asked.devices is None else list(dict.fromkeys(asked.devices)),
            home=self._place.home or None,
            view=self._place.view,
            called=self._membership.called,
            begins_unix_ns=begins,
            ends_unix_ns=ends,
            makes_room=asked.makes_room,
            note=asked.note,
            who=who,
            created_unix_ns=now,
        )

        def write(session: Session) -> schema.MaintenanceView:
            if asked.node is not None:
                found = nodes.find(session, asked.node)
                row.home, row.view, row.called = found.home or None, found.view, found.called
                row.node = found.name
            _check_changes_something(session, row)
            session.add(row)
            session.flush()
            notify(session, None, KIND, {"id": row.id})
            return self._view(session, row)

        made = self._database.writer.run(write)
        self._changed()
        return made

    def end(self, id_: int) -> schema.MaintenanceView:
        """Give the devices back; what it was. Raises NotFound."""

        def write(session: Session) -> schema.MaintenanceView:
            row = session.get(Maintenance, id_)
            if row is None:
                raise NotFound(f"id = {id_}: no such maintenance. GET /api/v1/maintenance lists them")
            ended = self._view(session, row)
            session.delete(row)
            notify(session, None, KIND, {"id": id_})
            return ended

        ended = self._database.writer.run(write)
        self._changed()
        return ended

    def _view(self, session: Session, row: Maintenance) -> schema.MaintenanceView:
        place = self._place
        if place.shared and row.home is not None and row.view is not None:  # as its server calls its devices
            place = replace(place, home=row.home, view=row.view)
        holders = {
            run.job_id: run.job_name
            for id_, run in snapshot.occupied(session, place).items()
            if _means(row, id_)
        }
        return schema.MaintenanceView(
            id=row.id,
            devices=row.devices,
            node=row.node,
            server=row.called,
            begins_at=moment(row.begins_unix_ns),
            ends_at=moment_or_none(row.ends_unix_ns),
            makes_room=row.makes_room,
            note=row.note,
            who=row.who,
            holders=[schema.Holder(job_id=id_, job_name=name) for id_, name in holders.items()],
        )


def _check_changes_something(session: Session, asked: Maintenance) -> None:
    for row in session.scalars(select(Maintenance).where(snapshot.goes_on(asked.begins_unix_ns))):
        if _covers(row, asked):
            until = (
                "" if row.ends_unix_ns is None else f" until {moment(row.ends_unix_ns):%Y-%m-%d %H:%M} UTC"
            )
            which = ", ".join(asked.devices or ()) or asked.node or "all of this server"
            rule = f"maintenance {row.id} keeps that out of use{until} already"
            raise UserError(
                "node" if asked.node else "devices", which, rule, f"End maintenance {row.id} first"
            )


def _covers(row: Maintenance, asked: Maintenance) -> bool:
    """Whether `asked`, beside `row`, would change nothing."""
    return (
        (row.home, row.view) == (asked.home, asked.view)
        and (row.node is not None or asked.node is None)
        and (row.devices is None or (asked.devices is not None and set(asked.devices) <= set(row.devices)))
        and row.begins_unix_ns <= asked.begins_unix_ns
        and (row.ends_unix_ns is None or (asked.ends_unix_ns or math.inf) <= row.ends_unix_ns)
        and (row.makes_room or not asked.makes_room)
    )


def _means(row: Maintenance, device: str) -> bool:
    """Whether a device is meant, which is held at the server that has the row, or beside it on the same machine."""
    if row.devices is not None:
        return device in row.devices
    return row.node is not None or is_own(device)


def _unix_ns(at: datetime) -> int:
    """Without a time zone: UTC."""
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e9)
