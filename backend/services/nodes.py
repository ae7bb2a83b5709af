"""The nodes: which machines there are, what each has, and who is on it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, NodeRow
from backend.scheduler import decide, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.membership import LEASE_S, NOW
from backend.scheduler.nodes import device_of
from backend.scheduler.place import Place, kernel_of
from backend.schemas import jobs
from backend.schemas.catalogue import Device
from backend.schemas.nodes import Interface, NodeView
from backend.services.times import moment, moment_or_none
from engine.errors import UserError

LEASE_NS = round(LEASE_S * 1e9)


class Nodes:
    """Those of one database."""

    def __init__(self, database: Database, membership: Alone) -> None:
        self._database = database
        self._membership = membership

    def all(self) -> list[NodeView]:
        """In the order in which they came."""
        with self._database.read() as session:
            now = cast(int, session.scalar(select(NOW))) if self._database.shared else time.time_ns()
            machines = grouped(session.scalars(select(NodeRow).order_by(NodeRow.id)).all())
            return [self._view(session, rows, now) for rows in machines]

    def _view(self, session: Session, rows: Sequence[NodeRow], now_unix_ns: int) -> NodeView:
        """One machine; `rows`: what its servers tell."""
        home = self._membership.place.home
        # The answer itself is a sign of life of the server that gives it.
        seen = {row.id: now_unix_ns if row.home == home else row.seen_unix_ns for row in rows}
        newest = max(rows, key=lambda row: seen[row.id])
        devices, free, now = list[Device](), Counter[str](), moment(now_unix_ns)
        for row in rows:
            own = self._devices(session, row, gpus=row is newest)
            devices += own
            if now_unix_ns - seen[row.id] <= LEASE_NS:
                free.update(
                    one.kind
                    for one in own
                    if one.job_id is None and (one.drained_at is None or one.drained_at > now)
                )
        return NodeView(
            id=rows[0].id,
            name=newest.name,
            address=newest.address,
            interfaces=[Interface(**one) for one in newest.interfaces],
            cpu_slots=sum(row.cpu_slots for row in rows),
            servers=[row.called for row in rows],
            state="up" if now_unix_ns - seen[newest.id] <= LEASE_NS else "away",
            seen_at=moment(seen[newest.id]),
            devices=devices,
            free={kind: free[kind] for kind in decide.KINDS if any(one.kind == kind for one in devices)},
        )

    def _devices(self, session: Session, row: NodeRow, *, gpus: bool) -> list[Device]:
        """A server's slots and, where `gpus`, the machine's GPUs."""
        place = replace(self._membership.place, home=row.home, view=row.view)
        found = [device_of(told) for told in row.devices if gpus or told["kind"] != "cuda"]
        devices = decide.Inventory(devices=tuple(found))
        ahead = self._membership.ahead_ns(session)
        return shown_devices(session, place, devices, node=row.name, server=row.called, ahead_ns=ahead)


def grouped(rows: Sequence[NodeRow]) -> list[list[NodeRow]]:
    """The rows of each machine: their views share the kernel's life."""
    found: dict[str, list[NodeRow]] = {}
    for row in rows:
        found.setdefault(kernel_of(row.view), []).append(row)
    return list(found.values())


def find(session: Session, asked: str) -> NodeRow:
    """The row that stands for a node, by its name or number. Raises UserError where there is none, or are several."""
    machines = grouped(session.scalars(select(NodeRow).order_by(NodeRow.id)).all())
    found = [rows for rows in machines if asked == str(rows[0].id) or asked in {row.name for row in rows}]
    if len(found) == 1:
        return max(found[0], key=lambda row: row.seen_unix_ns)
    listed = ", ".join(f"{rows[-1].name} ({rows[0].id})" for rows in found or machines) or "none"
    rule = f"several nodes have this name: {listed}" if found else f"there is no such node. Known: {listed}"
    raise UserError("node", asked, rule, "Name one of them by its number")


def shown_devices(
    session: Session, place: Place, inventory: decide.Inventory, *, node: str, server: str, ahead_ns: int
) -> list[Device]:
    """The devices of a place, and who is on each since when. `ahead_ns`: of this server's clock (`Alone.ahead_ns`)."""
    held = _holders(session, place)
    drained = snapshot.drained(session, place, inventory, time.time_ns() - ahead_ns).begins
    return [
        Device(
            name=device.id,
            kind=device.kind,
            node=node,
            server=server,
            description=device.name,
            model=device.model,
            memory_bytes=device.memory_bytes,
            job_id=holder.job.id if holder else None,
            job_name=holder.job.name if holder else None,
            job_state=cast(jobs.State, holder.job.state) if holder else None,
            workers=holder.devices.count(device.id) if holder else 0,
            since=moment(holder.created_unix_ns) if holder else None,
            drained_at=moment_or_none(drained.get(device.id)),
        )
        for device in inventory.devices
        for holder in (held.get(device.id),)
    ]


def _holders(session: Session, place: Place) -> dict[str, Attempt]:
    """Device id to the attempt that holds it."""
    return {
        place.device(attempt.home, attempt.view, device): attempt
        for attempt in snapshot.active_attempts(session, place.devices)
        for device in attempt.devices
    }
