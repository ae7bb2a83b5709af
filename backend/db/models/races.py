"""Races: what was asked for, the jobs that it made, and who takes part no more."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, JsonObject, Name


class Race(Base):
    """One race. Its id is a UUID version 7 (text): sorted by creation."""

    __tablename__ = "races"
    __table_args__ = (UniqueConstraint("idempotency_key"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[Name]
    owner: Mapped[str | None] = mapped_column(String(100))
    """Name of the user who made it, and so its jobs. None: as of a job."""
    spec: Mapped[JsonObject]
    """As it was validated; members that were added later are its last ones."""
    state: Mapped[str] = mapped_column(String(16), index=True)
    """`running` until every job has ended, then `finished`, or `failed` where none succeeded; or `cancelled`."""
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    body_sha256: Mapped[str | None] = mapped_column(String(64))
    """Hash of what was submitted: the same key with another body is refused."""
    created_unix_ns: Mapped[BigInt]
    ended_unix_ns: Mapped[BigInt | None]


class RaceRun(Base):
    """One job of a race."""

    __tablename__ = "race_runs"

    race_id: Mapped[str] = mapped_column(ForeignKey("races.id", ondelete="CASCADE"), primary_key=True)
    member: Mapped[int] = mapped_column(primary_key=True)
    condition: Mapped[int] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    """From 0."""
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"), index=True)
    """None where the job was deleted."""
    made_unix_ns: Mapped[BigInt | None]
    """When the job was made, which tells who ran beside whom: a deleted job did, too. None: an older server ran it, and
    somebody had deleted it."""


class RaceOut(Base):
    """A member that takes part no more under a condition: it was refused, or a job of it failed."""

    __tablename__ = "race_outs"

    race_id: Mapped[str] = mapped_column(ForeignKey("races.id", ondelete="CASCADE"), primary_key=True)
    member: Mapped[int] = mapped_column(primary_key=True)
    condition: Mapped[int] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(Text)
    """For a person: value, rule, remedy; or how its job ended."""
