"""Who may use the server: users, and the tokens that they show."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt, RowId

NAME_LENGTH = 100


class User(Base):
    """Somebody. Rows stay when a user is removed: what they made goes on naming them."""

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    """Never changed: jobs, races and the audit log hold it."""
    role: Mapped[str] = mapped_column(String(16))
    created_unix_ns: Mapped[BigInt]
    removed_unix_ns: Mapped[BigInt | None]


class Token(Base):
    """What a user shows. The token itself is stored nowhere."""

    __tablename__ = "tokens"
    # AUTOINCREMENT: a session of a token that is gone never belongs to another one.
    __table_args__ = (UniqueConstraint("hash"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    """What it is for, as its user says."""
    scope: Mapped[str] = mapped_column(String(16))
    """The role that whoever shows it has at most."""
    hash: Mapped[str] = mapped_column(String(64))
    """In hexadecimal digits: SHA-256 of a token of ours, which has 256 random bits, so that there is nothing to guess;
    scrypt, with `created_unix_ns` as the salt, of the server's own, which somebody may have chosen."""
    environment: Mapped[bool] = mapped_column(default=False)
    """It is the server's own: TRAINYARD_TOKEN, or what TRAINYARD_TOKEN_FILE holds."""
    created_unix_ns: Mapped[BigInt]
    expires_unix_ns: Mapped[BigInt | None]
    """None: never."""
    last_used_unix_ns: Mapped[BigInt | None]
    """To a minute. None: never."""
    revoked_unix_ns: Mapped[BigInt | None]
