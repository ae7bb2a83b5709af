"""When workers were away: metrics by which servers say who was lost, and workers that they have joined again.

The step of such a value is the worker's incarnation (how often it had been started anew), so that no loss takes another
one's place; its value is the step that the worker had come to, or joins at; its time says when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Said(NamedTuple):
    """One value of such a metric."""

    name: str
    incarnation: int
    at_ns: int


def lost(rank: int) -> str:
    """The metric's name for a worker that was lost."""
    return f"worker {rank} lost"


def joined(rank: int) -> str:
    """... and for one that has joined again."""
    return f"worker {rank} joined"


class Absence(NamedTuple):
    """A worker was away from a time on, to another one."""

    from_ns: int
    to_ns: int | None
    """None: it has not come back."""


def absences(said: Iterable[Said], workers: int) -> dict[int, list[Absence]]:
    """By rank, of those that were ever away: when they were, in order."""
    at: Mapping[tuple[str, int], int] = {(each.name, each.incarnation): each.at_ns for each in said}
    last = max((incarnation for _, incarnation in at), default=-1)
    found: dict[int, list[Absence]] = {}
    for rank in range(workers):
        away: list[Absence] = []
        for incarnation in range(last + 1):
            back = at.get((joined(rank), incarnation))
            if back is not None and away and away[-1].to_ns is None:
                away[-1] = away[-1]._replace(to_ns=back)
            gone = at.get((lost(rank), incarnation))
            if gone is not None and not (
                away and away[-1].to_ns is None
            ):  # or it was lost before it had joined
                away.append(Absence(gone, None))
        if away:
            found[rank] = away
    return found


def share_present(away: Iterable[Absence], from_ns: int, to_ns: int) -> float:
    """The share (0 to 1) of a stretch of time in which a worker was there."""
    length = to_ns - from_ns
    if length <= 0:
        return 1.0
    gone = sum(
        max(0, min(to_ns, each.to_ns if each.to_ns is not None else to_ns) - max(from_ns, each.from_ns))
        for each in away
    )
    return 1.0 - gone / length
