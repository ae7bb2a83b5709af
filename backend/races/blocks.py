"""Which jobs of a race ran close enough together in time to be compared with each other.

In a round everybody runs once, so that a round is such a block. A member that joins later catches up by itself with
the rounds that were over: those are blocks of its own. From then on it runs along, and shares the rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.races.order import Run

Block = tuple[int, int]
"""The wave of members that began together, from 0, and the round."""


def joined_ns(made: Mapping[Run, int], condition: int) -> dict[int, int]:
    """Of the members that joined later: how long after the first one began. `made`: when each job of a race was made,
    in ns."""
    waves, begun = _waves(made, condition)
    first = min(begun.values(), default=0)
    return {member: begun[member] - first for member, wave in waves.items() if wave}


def blocks(made: Mapping[Run, int], condition: int) -> dict[Run, Block]:
    """The block of every job under a condition."""
    waves, begun = _waves(made, condition)
    since = {
        wave: min(begun[one] for one, other in waves.items() if other == wave) for wave in waves.values()
    }
    found: dict[Run, Block] = {}
    own = [run for run in made if run.cell.condition == condition]
    for run in sorted(own, key=lambda run: (waves[run.cell.member], made[run])):
        wave = waves[run.cell.member]
        beside = (
            found[other]
            for other in (own if wave else ())
            if other.round == run.round and waves[other.cell.member] < wave and made[other] >= since[wave]
        )
        found[run] = next(beside, (wave, run.round))
    return found


def _waves(made: Mapping[Run, int], condition: int) -> tuple[dict[int, int], dict[int, int]]:
    """Each member's wave, and when it began."""
    first: dict[int, Run] = {}
    for run, at in made.items():
        if run.cell.condition == condition:
            known = first.get(run.cell.member)
            if known is None or at < made[known]:
                first[run.cell.member] = run
    begun = {member: made[run] for member, run in first.items()}
    waves: dict[int, int] = {}
    for member in sorted(begun, key=lambda one: (begun[one], one)):
        fitting = (
            wave
            for wave in sorted(set(waves.values()))
            if not _late(first[member], made, {one for one in waves if waves[one] == wave})
        )
        waves[member] = next(fitting, len(set(waves.values())))
    return waves, begun


def _late(first: Run, made: Mapping[Run, int], others: set[int]) -> bool:
    """Whether one of the others had gone on to another condition or round before the first job of a member that is
    known was made. That need not be of the first round: jobs may be deleted."""
    return any(
        run.cell.member in others
        and at < made[first]
        and (run.round, run.cell.condition) > (first.round, first.cell.condition)
        for run, at in made.items()
    )
