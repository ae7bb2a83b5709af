"""What a race's jobs have shown so far: rankings under every condition, where curves cross, and why."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy.orm import Session

from backend.db import models
from backend.figures.base import format_ms
from backend.figures.source import Source
from backend.figures.speed import Speed, measure
from backend.lifecycle import State
from backend.races import ranking
from backend.races.field import Cell, Condition, conditions
from backend.races.spec import FEWEST_ROUNDS, RaceSpec, labels
from backend.schemas import races as schema
from backend.services.remember import Remembered
from engine.plan.units_of_measure import format_rate, parse_rate

SPEEDS_REMEMBERED = 4_096
Why = Callable[[str, str], str | None]
"""What the first of two jobs has that makes it faster than the second, in a few words; None where nobody can tell."""


class Standings:
    """Reads the figures of races' jobs. What a job has shown is remembered until it changes."""

    def __init__(self) -> None:
        self._speeds: Remembered[Speed] = Remembered(room=SPEEDS_REMEMBERED)

    def rankings(
        self,
        session: Session,
        spec: RaceSpec,
        jobs: Mapping[tuple[Cell, int], models.Job],
        outs: Mapping[Cell, str],
        why: Why,
    ) -> list[schema.Ranking]:
        """One for each condition; `jobs` by cell and round."""
        return [
            self._ranking(session, spec, number, condition, jobs, outs, why)
            for number, condition in enumerate(conditions(spec))
        ]

    def _ranking(
        self,
        session: Session,
        spec: RaceSpec,
        number: int,
        condition: Condition,
        jobs: Mapping[tuple[Cell, int], models.Job],
        outs: Mapping[Cell, str],
        why: Why,
    ) -> schema.Ranking:
        names = labels(spec.members)
        own: dict[int, dict[int, models.Job]] = defaultdict(dict)
        for (cell, round_), job in sorted(jobs.items(), key=lambda item: item[0]):
            if cell.condition == number:
                own[cell.member][round_] = job
        speeds = {
            member: {
                round_: self._speed(session, job)
                for round_, job in rounds.items()
                if job.state == State.SUCCEEDED
            }
            for member, rounds in own.items()
        }
        ranked = ranking.rank(
            {
                member: {round_: speed.iteration_ns for round_, speed in rounds.items() if speed.iteration_ns}
                for member, rounds in speeds.items()
            }
        )
        shown = {standing.member: standing for standing in ranked}
        behind = [member for member in range(len(names)) if member not in shown]
        standings = [
            _standing(
                member,
                names[member],
                shown.get(member),
                list(speeds.get(member, {}).values()),
                outs.get(Cell(member, number)),
                [job.id for _, job in sorted(own[member].items())],
            )
            for member in (*shown, *behind)
        ]
        return schema.Ranking(
            condition=condition.text,
            rate=condition.rate,
            workers=condition.workers,
            batch=condition.batch,
            sentence=_sentence(ranked, names, spec.rounds, lambda a, b: _cause(own, a, b, why)),
            standings=standings,
        )

    def _speed(self, session: Session, job: models.Job) -> Speed:
        return self._speeds.get((job.id, job.revision), lambda: measure(Source(session, job.id)))


def crossings(spec: RaceSpec, rankings: Sequence[schema.Ranking]) -> list[str]:
    """`ddp catches up with p3 at about 900 Mbit/s`, for every two members whose order changes between two rates that
    differ in nothing else, and at both of which the slower one of the two is behind the fastest for certain."""
    if len(spec.rates) < 2:
        return []
    said = []
    names = labels(spec.members)
    others = {(each.workers, each.batch) for each in rankings}
    for other in sorted(others, key=str):
        same = [each for each in rankings if (each.workers, each.batch) == other and each.rate]
        same.sort(key=lambda each: parse_rate(each.rate or "", "rates"))
        rates = [float(parse_rate(each.rate or "", "rates")) for each in same]
        for one in range(len(names)):
            for two in range(one + 1, len(names)):
                curves = [[_iteration(each, member) for each in same] for member in (one, two)]
                whole = [i for i in range(len(same)) if _apart(same[i], one, two)]
                ours, theirs = ([curve[i] or math.nan for i in whole] for curve in curves)
                for rate in ranking.crossings([rates[i] for i in whole], ours, theirs):
                    ahead, later = (
                        (names[one], names[two]) if ours[0] < theirs[0] else (names[two], names[one])
                    )
                    text = f"{later} catches up with {ahead} at about {format_rate(_rounded(rate))}"
                    said.append(text if len(others) == 1 else f"{same[0].condition}: {text}")
    return said


def _apart(ranking_: schema.Ranking, one: int, two: int) -> bool:
    """Whether it is certain which of two members is faster."""
    both = [standing for standing in ranking_.standings if standing.member in (one, two)]
    ranks = [standing.rank for standing in both]
    return None not in ranks and sorted(standing.significant for standing in both) == [False, True]


def _iteration(ranking_: schema.Ranking, member: int) -> float | None:
    return next(s.iteration_ms for s in ranking_.standings if s.member == member)


def _rounded(rate: float) -> int:
    """Two digits: more would claim what an interpolation does not know."""
    digits = 10 ** (math.floor(math.log10(rate)) - 1)
    return round(rate / digits) * digits


def _standing(
    member: int,
    name: str,
    found: ranking.Standing | None,
    speeds: Sequence[Speed],
    out: str | None,
    job_ids: list[str],
) -> schema.Standing:
    interval = found.interval if found else None
    exposed = [speed.exposed_ns for speed in speeds if speed.exposed_ns is not None]
    return schema.Standing(
        member=member,
        name=name,
        rank=found.rank if found else None,
        iteration_ms=found.iteration_ns / 1e6 if found else None,
        samples_per_s=_mean([speed.samples_per_s for speed in speeds]),
        exposed_ms=sum(exposed) / len(exposed) / 1e6 if exposed else None,
        times_fastest=found.times_fastest if found else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        significant=found.significant if found else False,
        rounds=found.rounds if found else 0,
        out=out,
        job_ids=job_ids,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Geometric; None where nothing is known."""
    known = [value for value in values if value]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def _sentence(
    ranked: Sequence[ranking.Standing],
    names: Sequence[str],
    rounds: int,
    cause: Callable[[int, int], str | None],
) -> str:
    """Who is ahead, by how much, and why; or what is missing."""
    if not ranked:
        return "No member has figures yet"
    if len(ranked) == 1:
        return f"Only {names[ranked[0].member]} has figures yet: {format_ms(ranked[0].iteration_ns)} an iteration"
    first, *others = ranked
    behind = [other for other in others if other.significant]
    if behind:
        slowest = behind[-1]
        text = f"{names[first.member]} finishes a step {slowest.times_fastest:.2f}x sooner than {names[slowest.member]}"
        between = [f"{other.times_fastest:.2f}x sooner than {names[other.member]}" for other in behind[:-1]]
        text = ", ".join([text, *between])
        level = [names[other.member] for other in others if not other.significant]
        text += f", level with {' and '.join(level)}" if level else ""
        why = cause(first.member, slowest.member)
        return f"{text}: {why}" if why else text
    done = min(standing.rounds for standing in ranked)
    if done < FEWEST_ROUNDS:
        missing = f"{FEWEST_ROUNDS - done} more, of {rounds}"
        if rounds < FEWEST_ROUNDS:
            missing = f"this race has only {rounds}"
        return f"Too early to tell: {FEWEST_ROUNDS} rounds are the fewest that prove something ({missing})"
    times = ", ".join(f"{names[s.member]} {format_ms(s.iteration_ns)}" for s in ranked)
    return f"No significant difference after {done} rounds: a step takes {times}"


def _cause(own: Mapping[int, Mapping[int, models.Job]], fast: int, slow: int, why: Why) -> str | None:
    """By the last round that both have ended."""
    ended = [
        {number for number, job in own[member].items() if job.state == State.SUCCEEDED}
        for member in (fast, slow)
    ]
    common = ended[0] & ended[1]
    if not common:
        return None
    last = max(common)
    return why(own[fast][last].id, own[slow][last].id)
