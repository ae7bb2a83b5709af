"""What a server tells of the machine that it is on: its node.

Reading is pure but for the kernel's files; `tell` and `seen` write it in the transaction in which the server's lease is
made or renewed (`membership.py`).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, delete, update
from sqlalchemy.orm import Session

from backend.db.models import NodeRow
from backend.scheduler.decide import Device, Inventory
from backend.scheduler.place import Place
from engine.telemetry.sampler import LOOPBACK_INTERFACE, interface_address, interface_rate_bps

FORGOTTEN_DAYS = 30
"""A node whose servers have been away for so long is not shown any more."""

KNOWN = {field.name for field in fields(Device)}


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of a node."""

    name: str
    address: str | None
    """Its first IPv4 address. None: it has none."""
    rate_bps: int | None
    """The speed of its link, in bit/s. None: it is virtual or unplugged, or does not say."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a server tells of its node."""

    name: str
    address: str | None
    interfaces: tuple[Interface, ...]
    devices: tuple[Device, ...]

    @classmethod
    def of_this_machine(cls, inventory: Inventory) -> Told:
        """As the kernel has it now, for a server with these devices."""
        found = interfaces_here()
        return cls(
            name=socket.gethostname(),
            address=address_of(found),
            interfaces=found,
            devices=inventory.devices,
        )

    @property
    def columns(self) -> dict[str, Any]:
        """As the row has it."""
        return {
            "name": self.name,
            "address": self.address,
            "interfaces": [asdict(interface) for interface in self.interfaces],
            "cpu_slots": sum(device.kind == "cpu" for device in self.devices),
            "devices": [asdict(device) for device in self.devices],
        }


def interfaces_here() -> tuple[Interface, ...]:
    """Every network interface that this process sees, by name."""
    return tuple(
        Interface(name=name, address=interface_address(name), rate_bps=interface_rate_bps(name))
        for name in sorted(name for _, name in socket.if_nameindex())
    )


def address_of(interfaces: Sequence[Interface]) -> str | None:
    """Under which others reach the node: the address of an interface with hardware behind it before a virtual one's.
    None where only the loopback has one."""
    found = [one for one in interfaces if one.address is not None and one.name != LOOPBACK_INTERFACE]
    found.sort(key=lambda one: one.rate_bps is None)
    return found[0].address if found else None


def device_of(told: Mapping[str, Any]) -> Device:
    """A device as a node's row has it. Another version may know more of it."""
    return Device(**{name: value for name, value in told.items() if name in KNOWN})


def tell(session: Session, place: Place, called: str, told: Told, now: ColumnElement[int] | int) -> None:
    """Write the row of a server's place, and forget nodes that have been away for FORGOTTEN_DAYS. `now`: in Unix
    nanoseconds, by the database's clock where it has several servers."""
    row = session.query(NodeRow).filter(NodeRow.home == place.home).one_or_none()
    if row is None:
        row = NodeRow(home=place.home)
        session.add(row)
    for name, value in {**told.columns, "view": place.view, "called": called, "seen_unix_ns": now}.items():
        setattr(row, name, value)
    session.flush()
    session.execute(delete(NodeRow).where(NodeRow.seen_unix_ns < now - FORGOTTEN_DAYS * 86_400 * 10**9))


def seen(session: Session, place: Place, now: ColumnElement[int]) -> None:
    """The server of this place is there."""
    session.execute(update(NodeRow).where(NodeRow.home == place.home).values(seen_unix_ns=now))
