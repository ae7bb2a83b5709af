"""Projects: who shares the devices, and how."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt

NAME_LENGTH = 100


class Project(Base):
    """A label of jobs with a share and, maybe, a quota."""

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    """Never changed: jobs hold it."""
    weight: Mapped[float]
    """Of its share: twice as much gets twice as many device seconds. Above 0."""
    cpu: Mapped[int | None]
    """The most CPU slots that its jobs may hold at once; None: no limit. So are the others."""
    cuda: Mapped[int | None]
    rehearsal: Mapped[int | None]
    created_unix_ns: Mapped[BigInt]
