"""Devices that are taken out of use."""

from __future__ import annotations

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, RowId


class Maintenance(Base):
    """Some devices of one server, or all of a node, from a moment on until it is over: when its end has come, or
    somebody ends it. The row goes then."""

    __tablename__ = "maintenance"
    # AUTOINCREMENT: the audit log names them.
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    devices: Mapped[list[str] | None]
    """Ids of devices. None: all of that server."""
    home: Mapped[str | None] = mapped_column(String(36))
    """Of the server whose devices these are, as its attempts have it; so are `view` and `called`."""
    view: Mapped[str | None] = mapped_column(String(120))
    called: Mapped[str] = mapped_column(Text)
    node: Mapped[str | None] = mapped_column(String(200))
    """The name of the node that is drained as a whole: `devices` is None then, and all devices of all servers of that
    machine are meant. None: those of one server are."""
    begins_unix_ns: Mapped[BigInt]
    ends_unix_ns: Mapped[BigInt | None]
    """From then on it is over. None: when somebody ends it."""
    makes_room: Mapped[bool]
    """Jobs that run there, and have checkpoints, end with one when it begins, and queue again."""
    note: Mapped[str | None] = mapped_column(Text)
    who: Mapped[str | None] = mapped_column(String(100))
    """The user who began it. None: made where nobody was asked."""
    created_unix_ns: Mapped[BigInt]
