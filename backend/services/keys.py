"""Keys under which clients repeat a submission."""

from __future__ import annotations

from backend.races.order import is_key
from backend.services.errors import Conflict
from engine.errors import UserError

LENGTH = 200
FIELD = "Idempotency-Key"


def check(key: str | None) -> None:
    """Raises UserError for a key that no client may use: one job under a race's key would take a member's place."""
    if key is None:
        return
    if not 1 <= len(key) <= LENGTH:
        raise UserError(FIELD, key, f"must have 1 to {LENGTH} characters", "Use a UUID")
    if is_key(key):
        raise UserError(FIELD, key, "begins with 'race ', as the keys of a race's own jobs do", "Use a UUID")


def check_owner(key: str, first: str | None, asks: str | None) -> None:
    """Raises Conflict for a key under which another user (`first`) has made something: who `asks` would be answered
    with what they may not even cancel, and have nothing of their own. What nobody made is everybody's."""
    if asks is not None and first not in (None, asks):
        error = UserError(FIELD, key, f"was used by {first}", "Use a new key: a UUID")
        raise Conflict(str(error), [error])
