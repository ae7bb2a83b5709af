"""Keys under which a submission is repeated: a client's, and those of a race's own jobs."""

from __future__ import annotations

from backend.races.order import Run
from backend.services.errors import Conflict
from engine.errors import UserError

LENGTH = 200
FIELD = "Idempotency-Key"
_RACE = "race "


def of_run(race_id: str, run: Run) -> str:
    """A race's job in a round."""
    return f"{_RACE}{race_id} {run.cell.member} {run.cell.condition} {run.round}"


def check(key: str | None) -> None:
    """Raises UserError for a key that no client may use: one job under a race's key would take a member's place."""
    if key is None:
        return
    if not 1 <= len(key) <= LENGTH:
        raise UserError(FIELD, key, f"must have 1 to {LENGTH} characters", "Use a UUID")
    if key.lower().startswith(_RACE):
        raise UserError(
            FIELD, key, f"begins with {_RACE!r}, as the keys of a race's own jobs do", "Use a UUID"
        )


def check_owner(key: str, first: str | None, asks: str | None) -> None:
    """Raises Conflict for a key under which another user (`first`) has made something: who `asks` would be answered
    with what they may not even cancel, and have nothing of their own. What nobody made is everybody's."""
    if asks is not None and first not in (None, asks):
        error = UserError(FIELD, key, f"was used by {first}", "Use a new key: a UUID")
        raise Conflict(str(error), [error])
