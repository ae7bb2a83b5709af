"""What a ranking says in one sentence, and never with more certainty than it has (`comparison.certainty`). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.figures.base import format_ms
from backend.races.missing import missing_words, more_rounds
from backend.races.ranking import BASELINE, Standing
from backend.races.spec import FEWEST_ROUNDS
from backend.rounding import SPEED_UP
from backend.schemas.races import State
from backend.services.remarks import rounds_are
from engine.telemetry.comparison import certainty, may_be_chance
from engine.telemetry.estimates import Interval

BESIDE = "Other jobs were allowed to run at the same time"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is said of a ranking."""

    headline: str
    """What matters most of it."""
    rest: str = ""
    """What follows on that in the same sentence, and other sentences."""

    @property
    def sentence(self) -> str:
        """Both."""
        return self.headline + self.rest


def sentence(
    ranked: Sequence[Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
    **known: Any,
) -> str:
    """The whole of a `verdict`."""
    return verdict(ranked, names, rounds, cause, **known).sentence


def verdict(
    ranked: Sequence[Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
    *,
    beside: bool = False,
    state: State = "running",
    remarks: Mapping[int, str] | None = None,
    crowded: bool = False,
) -> Verdict:
    """Who is ahead, by how much, and why; or what is missing. `names`: by member; `rounds`: of the race; `cause`: why
    the first of two members is faster than the second; `beside`: other jobs may have run at the same time; `state`: of
    the race; `remarks`: what to know of members, as it follows on their names; `crowded`: this machine's processors
    were full, and other programs had most of them."""
    compared = [one for one in ranked if one.times_fastest is not None]
    first = _said(ranked, compared, names, rounds, cause, state)
    if crowded and any(one.unsure for one in compared) and not any(one.significant for one in compared):
        fill = "fill" if state == "running" else "filled"
        said = f"No order is certain{_yet(state)}: other programs {fill} this machine's processors"
        first = Verdict(headline=said, rest=f". {first.sentence}")
    parts = [first.rest]
    parts += [f"{names[member]} {text}" for member, text in sorted((remarks or {}).items())]
    if state == "cancelled" and not compared:
        parts.append("The race was cancelled before its first round had ended")
    elif state == "cancelled" and compared[0].rounds < rounds:
        parts.append(f"The race was cancelled after {_rounds(compared[0].rounds)}")
    if beside and ranked:
        parts.append(BESIDE)
    return Verdict(headline=first.headline, rest=". ".join(parts))


def _yet(state: State) -> str:
    return " yet" if state == "running" else ""


def gains(ranked: Sequence[Standing], names: Sequence[str], baseline: int = BASELINE) -> str | None:
    """What each member gains over the baseline, in one sentence; None where the sentence above says it, because nobody
    else is compared or the baseline is the fastest, and where nothing is known."""
    compared = [one for one in ranked if one.times_fastest is not None]
    gained = [
        f"{names[one.member]} {SPEED_UP.format(one.speed_up)} ({_surely(one.speed_up, one.speed_up_interval)})"
        for one in compared
        if one.speed_up is not None and one.speed_up_interval is not None
    ]
    if len(gained) < 2 or compared[0].member == baseline:
        return None
    return f"Speed-up over {names[baseline]}, the first that was named: {', '.join(gained)}"


def _surely(value: float, interval: Interval) -> str:
    if certainty(value, interval) == "chance":
        return may_be_chance(interval)
    return " to ".join(SPEED_UP.format(end) for end in interval)


def _said(
    ranked: Sequence[Standing],
    compared: Sequence[Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
    state: State,
) -> Verdict:
    yet = _yet(state)
    if not ranked:
        return Verdict(headline=f"No member has figures{yet}")
    first, *others = compared
    if not others:
        took = f"{format_ms(first.iteration_ns)} an iteration"
        if len(ranked) == 1:
            return Verdict(headline=f"Only {names[first.member]} has figures{yet}", rest=f": {took}")
        return Verdict(headline=f"Nobody compares with {names[first.member]}", rest=f", which takes {took}")
    if first.rank is None:
        return Verdict(headline=_too_few(first.rounds, rounds, state))
    behind = [other for other in others if other.significant]
    unsure = [other for other in others if other.unsure]
    if not behind:
        return _nobody_behind(compared, unsure, names, yet)
    level = [names[other.member] for other in others if not other.significant and other not in unsure]
    beside = f", level with {' and '.join(level)}," if level else ""
    said = []
    for other in sorted((*behind, *unsure), key=others.index):
        why = cause(first.member, other.member) if other in behind else None
        times = f"{SPEED_UP.format(other.times_fastest)} sooner than {names[other.member]}"
        if other in unsure:
            said.append(f"{times} ({may_be_chance(other.interval)})" if other.interval else times)
        # One cause belongs to one pair: of several each says its own.
        elif why is not None and len(behind) + len(unsure) > 1:
            said.append(f"{times} ({why})")
        else:
            said.append(times if why is None else f"{times}: {why}")
    return Verdict(headline=f"{names[first.member]}{beside} finishes a step {', '.join(said)}")


def _nobody_behind(
    compared: Sequence[Standing], unsure: Sequence[Standing], names: Sequence[str], yet: str
) -> Verdict:
    """Where nobody is behind the first one for certain; `unsure`: of whom there are too few rounds to tell."""
    times = ", ".join(
        f"{names[s.member]} {format_ms(s.iteration_ns)}"
        f"{_chance(names[compared[0].member], s) if s in unsure else ''}"
        for s in compared
    )
    after = f"after {compared[0].rounds} rounds"
    if not unsure:
        return Verdict(headline=f"No significant difference {after}", rest=f": a step takes {times}")
    of = f" of {' and '.join(names[s.member] for s in unsure)}" if len(unsure) + 1 < len(compared) else ""
    more = missing_words(more_rounds((s.missing for s in unsure), compared[0].rounds), "round")
    return Verdict(headline=f"Too few to tell{of}{yet} {after} ({more})", rest=f": a step takes {times}")


def _chance(first: str, other: Standing) -> str:
    """` (p3 is 1.58x as fast, which may be chance: 0.95x to 2.62x)`."""
    if other.interval is None:
        return ""
    return f" ({first} is {SPEED_UP.format(other.times_fastest)} as fast, {may_be_chance(other.interval)})"


def _too_few(count: int, rounds: int, state: State) -> str:
    """Nobody has a place."""
    if state == "running":
        missing = f"{FEWEST_ROUNDS - count} more, of {rounds}"
        if rounds < FEWEST_ROUNDS:
            missing = f"this race has only {rounds}"
        return f"Too early to tell: {FEWEST_ROUNDS} rounds are the fewest that prove something ({missing})"
    fewest = f"{FEWEST_ROUNDS} are the fewest that prove something"
    return f"Nobody can tell who is fastest: {rounds_are(count)} too few, {fewest}"


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"
