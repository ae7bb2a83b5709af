"""Ways to begin, as the API shows them."""

from __future__ import annotations

from backend.races import starts
from backend.schemas.starts import StartEntry
from engine.lab import permitted


def listed() -> list[StartEntry]:
    """All of them, on a lab's hosts where this machine permits one."""
    return [
        StartEntry(
            name=each.name,
            title=each.title,
            summary=each.summary,
            job=each.job,
            members=list(each.members),
            rounds=each.rounds,
        )
        for each in starts.starts(lab=permitted() is None)
    ]
