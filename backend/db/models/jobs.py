"""Jobs, their attempts, and the log of every state that either went through."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from backend.db.models.base import Base, BigInt, JsonObject, Name, RowId

WAITING = text("state = 'queued'")
"""Of which rows the index of jobs that wait is."""


class Job(Base):
    """What somebody asked for, and how it stands. Its id is a UUID version 7 (text): sorted by creation."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "ended_unix_ns", "started_unix_ns", "id"),
        Index(None, "state", "priority", "queued_unix_ns"),
        Index(None, "digest", "ended_unix_ns"),
        # The scheduler asks again and again which jobs wait, and at which revision: rows are long.
        Index(
            "ix_jobs_waiting",
            "state",
            "id",
            "revision",
            "retry_unix_ns",
            sqlite_where=WAITING,
            postgresql_where=WAITING,
        ),
        UniqueConstraint("idempotency_key"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[Name]
    owner: Mapped[str | None] = mapped_column(String(100))
    """Name of the user who made it. None: made where nobody was asked, or before there were users."""
    project: Mapped[str | None] = mapped_column(String(100))
    """Whose share and quota it counts for. None: nobody's. (No foreign key: SQLite would get it only by making the
    table anew.)"""
    spec: Mapped[JsonObject]
    """The job specification as it was validated."""
    # These two may have megabytes: they are read when they are asked for, inside of a session.
    plan: Mapped[JsonObject | None] = mapped_column(deferred=True)
    description: Mapped[JsonObject | None] = mapped_column(deferred=True)
    """The model's description: layers in the order of their index in events."""
    state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str | None] = mapped_column(String(64))
    """Code of why the job is in this state; None where the state says it all."""
    message: Mapped[str | None] = mapped_column(Text)
    """The same for a person: value, rule, remedy; for a failure the worker's own last error."""
    note: Mapped[str | None] = mapped_column(Text)
    """What a person wrote about it."""
    priority: Mapped[int] = mapped_column(default=0)
    """Larger goes first."""
    baseline_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"), index=True)
    """The job that the speed-up is measured against."""
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    body_sha256: Mapped[str | None] = mapped_column(String(64))
    """Hash of the submitted body: the same key with another body is refused."""
    digest: Mapped[str | None] = mapped_column(String(64))
    """Of all from which its duration follows (`backend.scheduler.durations`). None: made before this column was there,
    and nothing is learned from it."""
    created_unix_ns: Mapped[BigInt]
    queued_unix_ns: Mapped[BigInt | None]
    retry_unix_ns: Mapped[BigInt | None]
    """Of a queued job whose last attempt failed: it is not placed before this. Else None."""
    started_unix_ns: Mapped[BigInt | None]
    """When its first attempt started."""
    ended_unix_ns: Mapped[BigInt | None]
    revision: Mapped[BigInt] = mapped_column(default=0)
    """Goes up with every committed change of the job or of its telemetry; caches are keyed by it."""

    attempts: Mapped[list[Attempt]] = relationship(back_populates="job", order_by="Attempt.number")


class Attempt(Base):
    """One try at running a job. A retry is a new row, never a reused one."""

    __tablename__ = "attempts"
    # AUTOINCREMENT: an id is not given again after its row was deleted.
    __table_args__ = (
        UniqueConstraint("job_id", "number"),
        Index(None, "state"),
        Index(None, "server_id"),
        Index(None, "ended_unix_ns"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    """Small and never used again: it leads the key of every telemetry row."""
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    number: Mapped[int]
    """1 for the job's first attempt."""
    state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str | None] = mapped_column(String(64))
    message: Mapped[str | None] = mapped_column(Text)
    parties: Mapped[list[str]]
    """Names of the processes that record, by party number: workers first, then servers and reducers."""
    token_sha256: Mapped[str] = mapped_column(String(64))
    """Hash of the attempt's ingest-only token; the token itself is never stored."""
    epoch_unix_ns: Mapped[BigInt | None]
    """Zero of the attempt's clock."""
    directory: Mapped[str] = mapped_column(Text)
    devices: Mapped[list[str]] = mapped_column(default=list)
    """What it occupies until it has ended, one per worker, e.g. `cpu:0`; `backend.scheduler` gives them."""
    device_models: Mapped[list[str] | None]
    """What each of them is, e.g. `NVIDIA H200`; empty text where the machine does not say. None: nobody asked, before
    this column was there."""
    server_id: Mapped[str | None] = mapped_column(String(36))
    """The server that looks after it; None: none does now. (No foreign key: SQLite would get it only by making the
    table anew.)"""
    home: Mapped[str | None] = mapped_column(String(36))
    """Of the server that placed it, whose devices these are; so is `view`. None: an older version placed it."""
    view: Mapped[str | None] = mapped_column(String(120))
    called: Mapped[str | None] = mapped_column(Text)
    """The server that placed it or looked after it last, as people call it."""
    handle: Mapped[JsonObject | None]
    """What its executor finds it by (`backend.executors.base.Handle`); None: the launch was not recorded."""
    exit_code: Mapped[int | None]
    sealed: Mapped[bool] = mapped_column(default=False)
    """Every batch up to the last one is received: no further batch is taken."""
    last_sequences: Mapped[dict[str, int] | None]
    """Given by the seal: party number (as text) to its last sequence number, -1 where it sent none."""
    created_unix_ns: Mapped[BigInt]
    started_unix_ns: Mapped[BigInt | None]
    ended_unix_ns: Mapped[BigInt | None]
    preempted_for: Mapped[str | None] = mapped_column(String(36))
    """The job with a higher priority that this one had to make room for, or has to. None: it did not, or somebody asked
    it to. (No foreign key, as above: that job may be gone.)"""
    forgotten_unix_ns: Mapped[BigInt | None]
    """When what it recorded by layer and by link was removed, as it was old; None: it is there."""

    job: Mapped[Job] = relationship(back_populates="attempts")


class Transition(Base):
    """One change of state of a job (attempt_id is None) or of one of its attempts."""

    __tablename__ = "transitions"
    __table_args__ = (CheckConstraint("from_state IS NULL OR from_state <> to_state", name="moves"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id", ondelete="CASCADE"), index=True)
    from_state: Mapped[str | None] = mapped_column(String(32))
    to_state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str | None] = mapped_column(String(64))
    message: Mapped[str | None] = mapped_column(Text)
    at_unix_ns: Mapped[BigInt]
