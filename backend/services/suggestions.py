"""What to try next in a race: pure rules over its rankings, each with the figures that speak for it.

Where everybody trains with one worker, and nothing travels, only this: two workers. Otherwise, in this order, at most
MOST of them:

1. Who has not raced, in this race while it runs, and afterwards in another one with all its members: p3, where workers
   wait and one layer holds much of the model, because then small layers wait behind a large one; p3+late-multiply,
   where p3 has raced, the port still limits the fastest, and that layer is fully connected.
2. Where this machine's processors were full, and others than the job had most of them: the same while nothing else
   runs; else, where they limit a member, so that the ranking is this machine's: a rehearsal.
3. More rounds, where the race has ended and the two fastest differ, but it may be chance.
4. Another rate: where the order of two members changes between two rates, the rate at which they should meet, unless
   it lies close to one of them or has been raced; else, where the port limits the fastest at the race's highest rate, a
   higher one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.races.missing import more_rounds
from backend.races.spec import FEWEST_ROUNDS, MOST_ROUNDS, MemberSpec, RaceSpec
from backend.rounding import SPEED_UP, counted
from backend.schemas.races import Condition, Ranking, Standing, Suggestion
from backend.services.crossings import Crossing, said
from backend.services.crowded import crowded
from engine.plan.units_of_measure import parse_rate
from engine.telemetry.comparison import SMALLEST

MOST = 3
LARGE = 0.3
"""A layer with this share of the model's bytes is a large one."""
HIGHER = 4
"""So many times the highest rate is the next one to try."""
IDLE = 0.01
"""A port that is busy for a smaller share of the waits carries nothing of a gradient."""
APART = 1.5
"""Two rates of which the higher one is less than so many times the other leave no room between them."""


@dataclass(frozen=True, kw_only=True)
class LargestLayer:
    """The layer of a model that has most bytes."""

    name: str
    share: float
    """Of the model's bytes, from 0 to 1."""
    fully_connected: bool
    """Its gradient is a product of two factors."""


def suggestions(
    spec: RaceSpec,
    rankings: Sequence[Ranking],
    crossings: Sequence[Crossing],
    largest: LargestLayer | None,
    *,
    ended: bool,
) -> list[Suggestion]:
    """By the rules above."""
    fastest = [
        one.standings[0] for one in rankings if one.standings and one.standings[0].iteration_ms is not None
    ]
    if not fastest:
        return []
    if (together := _together(spec, rankings)) is not None:
        return [together]
    found = [
        _member(spec, fastest, largest, ended=ended),
        _machine(spec, rankings),
        _rounds(spec, rankings) if ended else None,
        _rate(rankings, crossings),
    ]
    return [one for one in found if one is not None][:MOST]


def _together(spec: RaceSpec, rankings: Sequence[Ranking]) -> Suggestion | None:
    """A job without `cluster.workers` has one worker: then strategies race over a network that nobody uses."""
    standings = [standing for one in rankings for standing in one.standings]
    workers = {spec.job.cluster.workers if one.workers is None else one.workers for one in rankings}
    if len(spec.members) < 2 or workers != {1} or any((one.port_busy or 0) >= IDLE for one in standings):
        return None
    first = rankings[0]
    return Suggestion(
        text="Race with 2 workers",
        reason="one worker has nobody to exchange gradients with: nothing travels, whatever the strategy and the rate",
        condition=Condition(rate=first.rate, workers=2, batch=first.batch),
    )


def _member(
    spec: RaceSpec, fastest: Sequence[Standing], largest: LargestLayer | None, *, ended: bool
) -> Suggestion | None:
    strategies = {member.strategy for member in spec.members}
    waiting = [
        one.limit for one in fastest if one.limit is not None and one.limit.kind in ("port", "waiting")
    ]
    if largest is None or largest.share < LARGE or not waiting:
        return None
    holds = f"{largest.name} holds {100 * largest.share:.0f} % of the model's bytes"
    if not any(strategy.startswith("p3") for strategy in strategies):
        reason = (
            f"{holds}, and what is behind it waits ({waiting[0].sentence}); p3 sends the urgent layers first"
        )
        return _with("p3", reason, ended=ended)
    port = [limit for limit in waiting if limit.kind == "port"]
    if port and largest.fully_connected and not any("late-multiply" in one for one in strategies):
        reason = (
            f"{holds} and is fully connected: with few samples in a step its factors are smaller than its gradient"
            f" ({port[0].sentence})"
        )
        return _with("p3+late-multiply", reason, ended=ended)
    return None


def _with(strategy: str, reason: str, *, ended: bool) -> Suggestion:
    """Who joins a race that has ended would run by itself, and be compared with nobody: all race again."""
    text = f"Race again with {strategy}" if ended else f"Let {strategy} race"
    return Suggestion(text=text, reason=reason, member=MemberSpec(strategy=strategy))


def _machine(spec: RaceSpec, rankings: Sequence[Ranking]) -> Suggestion | None:
    """A rehearsal computes nothing, so that all processors are there for what travels."""
    standings = [(one, standing) for one in rankings for standing in one.standings]
    for where, standing in standings:
        if crowded(standing) and standing.limit is not None:
            everywhere = all(any(map(crowded, one.standings)) for one in rankings)
            return Suggestion(
                text=f"Race again{'' if everywhere else _at(where)} while nothing else runs here",
                reason=f"other programs had most of this machine's processors ({standing.limit.sentence})",
                rounds=spec.rounds,
                condition=None if everywhere else _condition(where, rankings),
            )
    for _, standing in standings:
        limit = standing.limit
        if limit is not None and limit.kind == "processors" and spec.job.fidelity != "rehearse":
            reason = f"{standing.name} is limited by this machine ({limit.sentence})"
            return Suggestion(
                text="Rehearse it: computation is waited for", reason=reason, fidelity="rehearse"
            )
    return None


def _rounds(spec: RaceSpec, rankings: Sequence[Ranking]) -> Suggestion | None:
    for one in rankings:
        ranked = [standing for standing in one.standings if standing.times_fastest is not None]
        if len(ranked) < 2 or spec.rounds >= MOST_ROUNDS:
            continue
        first, second = ranked[:2]
        if not second.significant and (second.times_fastest or 1) >= 1 + SMALLEST:
            more: int | None = FEWEST_ROUNDS
            if second.unsure:  # as many as the ranking's sentence names
                more = more_rounds((one.missing for one in ranked if one.unsure), second.rounds)
                more = None if more is None else second.rounds + more
            elif spec.rounds >= FEWEST_ROUNDS:
                more = min(2 * spec.rounds, MOST_ROUNDS)
            if more is None:
                continue  # no race would tell
            reason = (
                f"{first.name} is {SPEED_UP.format(second.times_fastest)} as fast as {second.name}, which may "
                f"be chance after {second.rounds} round{'s' * (second.rounds != 1)}"
            )
            text = f"Race again in {counted(more, 'round')}{_at(one)}"
            return Suggestion(text=text, reason=reason, rounds=more, condition=_condition(one, rankings))
    return None


def _at(one: Ranking) -> str:
    """` at 100Mbit`; nothing where the race has one condition, of which its job says all."""
    return f" at {one.condition}" if one.condition else ""


def _condition(one: Ranking, rankings: Sequence[Ranking]) -> Condition | None:
    """Of several, the one that is meant: what is clear at the others needs no further round."""
    return Condition(rate=one.rate, workers=one.workers, batch=one.batch) if len(rankings) > 1 else None


def _rate(rankings: Sequence[Ranking], crossings: Sequence[Crossing]) -> Suggestion | None:
    for crossing in crossings:
        low, high = crossing.between
        rate = said(crossing.rate_bps)
        condition = Condition(rate=_written(rate), workers=crossing.workers, batch=crossing.batch)
        if high / low >= APART and not _raced(rankings, condition):
            reason = f"{crossing.text}; nobody has raced there"
            return Suggestion(text=f"Race at {rate}", reason=reason, condition=condition)
    rated = [(parse_rate(one.rate, "rates"), one) for one in rankings if one.rate is not None]
    highest = max((rate for rate, _ in rated), default=0)
    for top in (one for rate, one in rated if rate == highest and one.standings):
        first = top.standings[0]
        if first.limit is not None and first.limit.kind == "port":
            rate = said(HIGHER * highest)
            reason = f"at {top.rate}, the highest rate, {first.name} still waits for the link ({first.limit.sentence})"
            condition = Condition(rate=_written(rate), workers=top.workers, batch=top.batch)
            return Suggestion(text=f"Race at {rate}", reason=reason, condition=condition)
    return None


def _raced(rankings: Sequence[Ranking], condition: Condition) -> bool:
    """Whether there is a ranking of it, however its rate is written."""
    wanted = parse_rate(condition.rate or "", "rates")
    return any(
        (one.workers, one.batch) == (condition.workers, condition.batch)
        and one.rate is not None
        and parse_rate(one.rate, "rates") == wanted
        for one in rankings
    )


def _written(rate: str) -> str:
    """`900Mbit` of `900 Mbit/s`: as a race's specification has it."""
    return rate.replace(" ", "").removesuffix("/s")
