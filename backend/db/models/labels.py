"""What lists say of a job beside its own row: tags that people gave it, and its newest figures."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt

TAG_LENGTH = 50


class JobTag(Base):
    """A word that a person gave a job."""

    __tablename__ = "job_tags"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(TAG_LENGTH), primary_key=True, index=True)


class JobFigures(Base):
    """A job's newest figures as its row in the list shows them: what lists are sorted by.

    Written by `backend.services.job_figures` some seconds after what they follow from.
    """

    __tablename__ = "job_figures"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[BigInt]
    """Of the job when they were read: as long as it stands, they are the newest."""
    step: Mapped[int | None]
    """Steps that every worker finished."""
    loss: Mapped[float | None]
    test_accuracy: Mapped[float | None]
    samples_per_s: Mapped[float | None]
    speed_up: Mapped[float | None]
