"""Nodes: the machines on which servers place jobs, as each server tells of its own."""

from __future__ import annotations

from sqlalchemy import JSON, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, JsonObject, RowId

_OBJECTS = JSON(none_as_null=True)


class NodeRow(Base):
    """What one server's place tells of the machine that it is on. Rows whose views share the kernel's life are of one
    machine, which is one node. The row stays when its server goes, and says since when it is away."""

    __tablename__ = "nodes"
    # AUTOINCREMENT: the audit log names them.
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    home: Mapped[str] = mapped_column(String(36), unique=True)
    """Of the server's data directory, as `servers` has it. Empty: of the only server of its database."""
    view: Mapped[str] = mapped_column(String(120))
    name: Mapped[str] = mapped_column(Text)
    """What the machine calls itself."""
    address: Mapped[str | None] = mapped_column(String(64))
    """Its first IPv4 address that is not its loopback's. None: it has none."""
    interfaces: Mapped[list[JsonObject]] = mapped_column(_OBJECTS)
    """As `Interface` of backend/scheduler/nodes.py."""
    cpu_slots: Mapped[int]
    devices: Mapped[list[JsonObject]] = mapped_column(_OBJECTS)
    """As `Device` of backend/scheduler/decide.py."""
    called: Mapped[str] = mapped_column(Text)
    """What people call the server: process and address."""
    seen_unix_ns: Mapped[BigInt]
    """When its server told of itself last, by the database's clock."""
