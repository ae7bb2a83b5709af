"""Where the order of a race's members changes from one rate to another. Pure, over rankings.

That it changes is said only where it is certain who of the two is faster on either side: two members that are nearly
equal change places by chance from one rate to the next. Where exactly it changes nobody measured, so that the sentence
says between which rates, and what interpolation finds as a guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from backend.races import ranking
from backend.races.spec import RaceSpec, labels
from backend.schemas import races as schema
from engine.plan.units_of_measure import format_rate, parse_rate


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Two members meet."""

    rate_bps: float
    """Interpolated between two rates at which they raced."""
    ahead: int
    """Who is faster below it."""
    later: int
    """Who is faster above it."""
    between: tuple[float, float]
    """The two rates, in bit/s."""
    workers: int | None
    """Of the conditions that are compared, as `batch`; None: the job's own."""
    batch: int | None
    text: str
    """`ddp catches up with p3 between 500 Mbit/s and 1 Gbit/s, at about 900 Mbit/s`."""


def crossings(spec: RaceSpec, rankings: Sequence[schema.Ranking]) -> list[Crossing]:
    """For every two members whose order changes between two rates that differ in nothing else: neighbours among those
    at which it is certain who of the two is faster, because one of them is the fastest of all."""
    names = labels(spec.members)
    others = sorted({(each.workers, each.batch) for each in rankings}, key=str)
    found = []
    for workers, batch in others:
        same = [one for one in rankings if (one.workers, one.batch) == (workers, batch) and one.rate]
        same.sort(key=lambda one: parse_rate(one.rate or "", "rates"))
        for one in range(len(names)):
            for two in range(one + 1, len(names)):
                whole = [each for each in same if _apart(each, one, two)]
                for low, high in pairwise(whole):
                    rates = [float(parse_rate(each.rate or "", "rates")) for each in (low, high)]
                    ours, theirs = (
                        [_iteration(each, member) for each in (low, high)] for member in (one, two)
                    )
                    for rate in ranking.crossings(rates, ours, theirs):
                        ahead, later = (one, two) if ours[0] < theirs[0] else (two, one)
                        where = " and ".join(format_rate(round(end)) for end in rates)
                        text = f"{names[later]} catches up with {names[ahead]} between {where}, at about {said(rate)}"
                        found.append(
                            Crossing(
                                rate_bps=rate,
                                ahead=ahead,
                                later=later,
                                between=(rates[0], rates[1]),
                                workers=workers,
                                batch=batch,
                                text=text if len(others) == 1 else f"{_where(workers, batch)}: {text}",
                            )
                        )
    return found


def said(rate_bps: float) -> str:
    """Two digits: more would claim what an interpolation does not know."""
    digits = 10 ** (math.floor(math.log10(rate_bps)) - 1)
    return format_rate(round(rate_bps / digits) * digits)


def _where(workers: int | None, batch: int | None) -> str:
    parts = [
        None if workers is None else f"{workers} worker{'s' * (workers > 1)}",
        None if batch is None else f"batch {batch}",
    ]
    return ", ".join(part for part in parts if part)


def _apart(ranking_: schema.Ranking, one: int, two: int) -> bool:
    """Whether it is certain which of two members is faster. A ranking compares everybody with the fastest, so that
    nothing is certain of two others, also where one of them alone is slower than the fastest."""
    fastest, *others = ranking_.standings
    pair = {one, two} - {fastest.member}
    return len(pair) == 1 and any(each.member in pair and each.significant for each in others)


def _iteration(ranking_: schema.Ranking, member: int) -> float:
    return next(s.iteration_ms for s in ranking_.standings if s.member == member) or math.nan
