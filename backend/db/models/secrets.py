"""What jobs need and nobody is to read: passwords and tokens of other services."""

from __future__ import annotations

from sqlalchemy import String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, RowId

SECRET_NAME_LENGTH = 100


class Secret(Base):
    """One of a user's."""

    __tablename__ = "secrets"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    owner: Mapped[str] = mapped_column(String(100))
    """A user's name. Empty: kept where nobody was asked."""
    name: Mapped[str] = mapped_column(String(SECRET_NAME_LENGTH))
    """The environment variable that a job's processes find it in."""
    sealed: Mapped[str] = mapped_column(Text)
    """What it is, encrypted (`backend/services/vault.py`)."""
    changed_unix_ns: Mapped[BigInt]
