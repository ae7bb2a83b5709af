"""How many more rounds would tell: one answer for a race's verdicts, its tables and what to try next. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from backend.races.spec import MOST_ROUNDS
from backend.rounding import counted


def more_rounds(missing: Iterable[int | None], done: int) -> int | None:
    """So many more than the `done` ones until all can be told apart, each of whom is `missing` some; None where no race
    has so many."""
    every = list(missing)
    known = [one for one in every if one is not None]
    most = max(known, default=0)
    return None if len(known) < len(every) or done + most > MOST_ROUNDS else most


def missing_words(more: int | None, what: str) -> str:
    """`2 more rounds would probably tell`, of what `more_rounds` found."""
    if more is None:
        return f"it would take more than the {MOST_ROUNDS} {what}s that a race may have"
    return f"{counted(more, f'more {what}')} would probably tell"
