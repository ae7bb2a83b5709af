"""What a ranking says in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backend.figures.base import format_ms
from backend.races.ranking import Standing
from backend.races.spec import FEWEST_ROUNDS

BESIDE = "Other jobs were allowed to run at the same time"


def sentence(
    ranked: Sequence[Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
    *,
    beside: bool = False,
) -> str:
    """Who is ahead, by how much, and why; or what is missing. `names`: by member; `rounds`: of the race; `cause`: why
    the first of two members is faster than the second; `beside`: other jobs may have run at the same time."""
    said = _said(ranked, names, rounds, cause)
    return f"{said}. {BESIDE}" if beside and ranked else said


def _said(
    ranked: Sequence[Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
) -> str:
    if not ranked:
        return "No member has figures yet"
    first, *others = ranked
    if not others:
        return f"Only {names[first.member]} has figures yet: {format_ms(first.iteration_ns)} an iteration"
    told = [other for other in others if other.rounds >= FEWEST_ROUNDS]
    if not told:
        missing = f"{FEWEST_ROUNDS - max(other.rounds for other in others)} more, of {rounds}"
        if rounds < FEWEST_ROUNDS:
            missing = f"this race has only {rounds}"
        return f"Too early to tell: {FEWEST_ROUNDS} rounds are the fewest that prove something ({missing})"
    few = [names[other.member] for other in others if other not in told]
    rest = f". Too few rounds to tell of {' and '.join(few)}" if few else ""
    behind = [other for other in told if other.significant]
    if not behind:
        times = ", ".join(f"{names[s.member]} {format_ms(s.iteration_ns)}" for s in (first, *told))
        done = min(other.rounds for other in told)
        return f"No significant difference after {done} rounds: a step takes {times}{rest}"
    slowest = behind[-1]
    text = f"{names[first.member]} finishes a step {slowest.times_fastest:.2f}x sooner than {names[slowest.member]}"
    between = [f"{other.times_fastest:.2f}x sooner than {names[other.member]}" for other in behind[:-1]]
    text = ", ".join([text, *between])
    level = [names[other.member] for other in told if not other.significant]
    text += f", level with {' and '.join(level)}" if level else ""
    why = cause(first.member, slowest.member)
    return f"{text}: {why}{rest}" if why else f"{text}{rest}"
