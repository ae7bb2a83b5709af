"""The servers of one database, and what only one of them does."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt


class ServerRow(Base):
    """A server that looks after jobs, in one of its lives. Its lease is what it holds everything by: with the row goes
    all that names it."""

    __tablename__ = "servers"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    """Of this life: a UUID version 7."""
    home: Mapped[str] = mapped_column(String(36))
    """Of its data directory, the same in every life."""
    view: Mapped[str] = mapped_column(String(120))
    """Of the kernel's life and the process namespace: who shares it sees the same processes."""
    called: Mapped[str] = mapped_column(Text)
    """What people call it: process and address."""
    until_unix_ns: Mapped[BigInt]
    """By the database's clock; it is renewed long before. Of a SQLite, which has one server, it says nothing."""


class Role(Base):
    """Work on the whole database, which one server does at a time."""

    __tablename__ = "roles"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    server_id: Mapped[str] = mapped_column(ForeignKey("servers.id", ondelete="CASCADE"), index=True)
