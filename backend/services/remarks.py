"""What a reader must know of a member's place, or why it has none. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.lifecycle import State
from backend.races.ranking import Beside
from backend.races.spec import FEWEST_ROUNDS
from backend.rounding import SPEED_UP
from engine.telemetry.comparison import certainty, may_be_chance

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
    failed: bool = False
    """Whether it takes part no more, and nobody cancelled it."""
    beside: str | None = None
    """How it compares with the fastest, where it has no place because it failed (`beside_fastest`)."""
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
    if what.failed and (what.placed or what.rounds >= FEWEST_ROUNDS):
        ended = what.lost or "takes part no more"
        if what.placed:
            return ended
        return f"{ended} and has no place" + (f": {what.beside}" if what.beside else "")
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


def ended_so(round_: int, state: str, message: str | None) -> str:
    """Why a member takes part no more whose job of a round (from 0) ended without success."""
    return f"round {round_ + 1}: {state}: {message or '-'}"


def was_cancelled(out: str) -> bool:
    """Whether somebody cancelled the job for which a member takes part no more (`ended_so`): that says nothing of the
    member."""
    return re.match(rf"round \d+: {State.CANCELLED}: ", out) is not None


def beside_fastest(found: Beside | None, names: Sequence[str]) -> str | None:
    """`in the 3 rounds that both ran it was 1.10x as fast as p3 (1.09x to 1.11x)`: a factor says how fast, as in every
    other sentence."""
    if found is None:
        return None
    low, high = found.interval
    faster = (1 / high, 1 / low)
    ends = " to ".join(SPEED_UP.format(end) for end in faster)
    sure = may_be_chance(faster) if certainty(found.times, found.interval) == "chance" else ends
    was = f"it was {SPEED_UP.format(1 / found.times)} as fast as {names[found.fastest]} ({sure})"
    return f"in the {found.rounds} rounds that both ran {was}"


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
