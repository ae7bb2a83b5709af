"""Notices: the feed behind server-sent events."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, JsonObject, RowId


class Notice(Base):
    """Something changed: what, at which revision, and the latest values; never bulk data.

    Written in the transaction of the change itself, by the only writer: ids grow in the order of commits, so
    a page that reconnects with the last id it saw misses nothing.
    """

    __tablename__ = "notices"
    # AUTOINCREMENT: an id stays unique after old notices were deleted.
    __table_args__ = {"sqlite_autoincrement": True}

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    payload: Mapped[JsonObject]
    at_unix_ns: Mapped[BigInt]
