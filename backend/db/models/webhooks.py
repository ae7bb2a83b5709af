"""Addresses that are told what happened, and each time that they were."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, JsonObject, RowId

WEBHOOK_NAME_LENGTH = 100
HOST_LENGTH = 300


class Webhook(Base):
    """An address that somebody wants to be told."""

    __tablename__ = "webhooks"
    # AUTOINCREMENT: the log of one that is gone never belongs to another.
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    owner: Mapped[str | None] = mapped_column(String(100), index=True)
    """A user's name. None: made where nobody was asked."""
    name: Mapped[str] = mapped_column(String(WEBHOOK_NAME_LENGTH))
    host: Mapped[str] = mapped_column(String(HOST_LENGTH))
    """Scheme, name and port of the address. The rest may be a secret, as it is of chat programs."""
    sealed: Mapped[str] = mapped_column(Text)
    """The whole address and the key by which messages are signed, encrypted (`backend/services/vault.py`)."""
    events: Mapped[list[str]]
    everybodys: Mapped[bool]
    """It is told of everybody's jobs and races; else of its owner's."""
    created_unix_ns: Mapped[BigInt]


class Delivery(Base):
    """One message to a webhook, written in the transaction that it tells of. It goes when it is old."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(None, "webhook_id", "id"),
        Index(None, "next_unix_ns"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str] = mapped_column(String(32))
    body: Mapped[JsonObject]
    at_unix_ns: Mapped[BigInt]
    """When it happened."""
    tries: Mapped[int] = mapped_column(default=0)
    next_unix_ns: Mapped[BigInt | None]
    """When it is to be tried (again). None: it was delivered, or given up."""
    tried_unix_ns: Mapped[BigInt | None]
    """When it was tried last. None: never."""
    status: Mapped[int | None]
    """What the receiver answered last, as HTTP has it. None: nothing."""
    trouble: Mapped[str | None] = mapped_column(Text)
    """Why the last try failed. None: it did not."""
