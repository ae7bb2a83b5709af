"""Who signed in with a browser."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt


class SignIn(Base):
    """One browser's session, until it signs out or `ends_unix_ns`.

    The browser has a random id. Here stands what the server's token makes of it (HMAC-SHA-256): nobody who reads this
    table can show the id, and with another token no row belongs to any id.
    """

    __tablename__ = "sign_ins"

    id_hmac: Mapped[str] = mapped_column(String(64), primary_key=True)
    """In hexadecimal digits."""
    ends_unix_ns: Mapped[BigInt]
