"""The order of a race's jobs: round by round, and in each round in another order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from backend.races.field import Cell


@dataclass(frozen=True, order=True)
class Run:
    """One job of a race."""

    round: int
    """From 0."""
    cell: Cell


_KEY = "race "


def key_of(race_id: str, run: Run) -> str:
    """The idempotency key of a race's job in a round. No client's key begins so (`is_key`)."""
    return f"{_KEY}{race_id} {run.cell.member} {run.cell.condition} {run.round}"


def is_key(key: str) -> bool:
    """Whether it begins as those of races' jobs do, in any letters: databases may compare without their case."""
    return key.lower().startswith(_KEY)


def race_of_key(key: str | None) -> str | None:
    """The id of the race whose job has this key; None: it is no race's."""
    if key is None or not key.startswith(_KEY):
        return None
    return key.removeprefix(_KEY).partition(" ")[0]


def schedule(members: int, conditions: int, rounds: int) -> Iterator[Run]:
    """All jobs in their order. In a round conditions follow one another, and under each all members, so that what is
    compared runs close together in time. Who is first turns from round to round: nobody is always the one that finds a
    machine cool, or warm."""
    for round_ in range(rounds):
        for condition in range(conditions):
            for place in range(members):
                yield Run(round_, Cell((place + round_) % members, condition))


def following(
    members: int, conditions: int, rounds: int, done: Collection[Run], out: Collection[Cell]
) -> Run | None:
    """The first job that has not been made yet, leaving out the cells that are out; None where there is none."""
    for run in schedule(members, conditions, rounds):
        if run not in done and run.cell not in out:
            return run
    return None
