"""Speed-up over time: a job's throughput over its baseline's as it was measured, and what each measurement rests on.

Written by `backend.services.speed_ups` while the job runs, and once more when nothing can change any longer. A row
outlives its baseline, whose name it keeps.
"""

from __future__ import annotations

from sqlalchemy import Boolean, String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, Name
from backend.db.models.telemetry import CLUSTERED, attempt_key, key


class SpeedUpRow(Base):
    """One comparison of an attempt with its job's baseline, by `engine.telemetry.comparison`."""

    __tablename__ = "speed_ups"
    __table_args__ = CLUSTERED

    attempt_id: Mapped[int] = attempt_key()
    step: Mapped[int] = key()
    """Last step of the job's window; -1 before its first one ended."""
    first_step: Mapped[int]
    """First step of the window."""
    at_ns: Mapped[BigInt]
    """When `step` ended, on the attempt's clock."""
    measured_unix_ns: Mapped[BigInt]
    baseline_id: Mapped[str] = mapped_column(String(36))
    baseline_name: Mapped[Name]
    baseline_workers: Mapped[int]
    baseline_attempt: Mapped[int | None]
    """Number of the baseline's attempt; None where it had none."""
    baseline_first_step: Mapped[int]
    baseline_last_step: Mapped[int]
    samples_per_s: Mapped[float | None]
    baseline_samples_per_s: Mapped[float | None]
    value: Mapped[float | None]
    """None: not comparable."""
    low: Mapped[float | None]
    """Ends of the value's 95 % confidence interval; None where too little was measured to tell."""
    high: Mapped[float | None]
    scaling: Mapped[str] = mapped_column(String(8))
    """strong or weak."""
    refused: Mapped[list[str]]
    """Why there is no value."""
    caveats: Mapped[list[str]]
    """What a reader must know to trust the value."""
    final: Mapped[bool] = mapped_column(Boolean())
    """Both jobs had ended."""
    revision: Mapped[BigInt]
    """Of the job when this was written, as `baseline_revision` is the baseline's: as long as both stand, measuring
    again would find the same."""
    baseline_revision: Mapped[BigInt]
