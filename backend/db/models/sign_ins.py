"""Who signed in with a browser."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from backend.db.models.base import Base, BigInt


class SignIn(Base):
    """One browser's session, until it signs out, `ends_unix_ns`, or the end of the token that it was begun with.

    The browser has a random id of 256 bits. Here stands its hash: nobody who reads this table can show the id.
    """

    __tablename__ = "sign_ins"

    id_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    """In hexadecimal digits."""
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)
    ends_unix_ns: Mapped[BigInt]
