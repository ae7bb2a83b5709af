"""The attempt's own token: it lets a party post telemetry of this attempt, and nothing else.

It is valid until the attempt is sealed. The database holds only its hash; the token has 256 random bits, so a
plain SHA-256 is enough (there is nothing to guess).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from sqlalchemy.orm import Session

from backend.db.models import Attempt
from backend.ingest.errors import IngestError


def new_token() -> str:
    """A token for a new attempt; store `token_sha256` of it."""
    return secrets.token_urlsafe(32)


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def authorize(session: Session, attempt_id: int, token: str) -> Attempt:
    """The attempt, where `token` is its own; IngestError 401 otherwise, also for an attempt that is not there
    (a stranger learns nothing). Compared in constant time."""
    attempt = session.get(Attempt, attempt_id)
    stored = attempt.token_sha256 if attempt is not None else "0" * 64
    if not hmac.compare_digest(stored, token_sha256(token)) or attempt is None:
        raise IngestError(
            401,
            "attempt",
            attempt_id,
            "the token is not that of this attempt",
            "Send the attempt's own token as `Authorization: Bearer ...`",
        )
    return attempt
