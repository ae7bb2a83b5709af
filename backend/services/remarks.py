"""What a reader must know of a member's place, or why it has none. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from backend.races.spec import FEWEST_ROUNDS

BY_ITSELF = "ran by itself: times between it and the others are not compared within rounds"


@dataclass(frozen=True, kw_only=True)
class Happened:
    """To a member under a condition."""

    rounds: int
    """Of which there are figures."""
    compared: bool
    """Whether its figures and the others' are over the same rounds."""
    placed: bool
    """Whether it has a place."""
    lost: str | None = None
    """`failed in round 2`: the job that ended it. None: none did."""
    deleted: int = 0
    """So many of its jobs were deleted."""
    joined_s: float | None = None
    """So long after the others it began. None: with them."""
    other_model: str | None = None
    """How its model differs from that of the fastest. None: it does not, as far as anybody knows."""


def remark(what: Happened, *, running: bool) -> str | None:
    """As it follows on the member's name: `failed in round 2: 1 round is too few to rank it`. None: nothing to say."""
    if what.other_model and not what.compared:
        return f"does not compare: {what.other_model}"
    if what.joined_s is not None and what.rounds:
        joined = f"joined {_span(what.joined_s)} after the others began"
        without = "the rounds that it ran by itself do not count"
        return f"{joined}: {without}" if what.compared else f"{joined} and {BY_ITSELF}"
    if what.placed:
        return None
    few = f"{rounds_are(what.rounds)} too few to rank it"
    if what.rounds >= FEWEST_ROUNDS and not what.compared:
        few = "it shares too few rounds with the others to rank it"
    alone = None if what.compared or not what.rounds else "still runs" if running else "has no place"
    gone = f"has lost the figures of {_jobs(what.deleted)}, which somebody deleted" if what.deleted else None
    why = what.lost or gone or alone
    return f"{why}: {few}" if why and what.rounds else why


def deleted(count: int) -> str:
    """`The figures of 1 job were deleted: what is said here rests on the others`."""
    return f"The figures of {_jobs(count)} were deleted: what is said here rests on the others"


def rounds_are(count: int) -> str:
    """`1 round is`, `2 rounds are`."""
    return "1 round is" if count == 1 else f"{count} rounds are"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
