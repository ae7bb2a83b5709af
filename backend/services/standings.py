"""What a race's jobs have shown so far: rankings under every condition, why, and what limits each member."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from backend.db import models
from backend.figures import limits as measured
from backend.figures.processors import Processors, processors
from backend.figures.source import Source
from backend.figures.speed import Speed, measure
from backend.lifecycle import State
from backend.races import ranking
from backend.races.field import Cell, Condition, conditions
from backend.races.spec import RaceSpec, labels
from backend.schemas import races as schema
from backend.schemas.telemetry import Processors as ShownProcessors
from backend.services.remember import Remembered
from backend.services.suggestions import LargestLayer
from backend.services.verdict import sentence
from engine.plan.description import layer_title
from engine.telemetry import limits

JOBS_REMEMBERED = 4_096
Why = Callable[[str, str], str | None]
"""What the first of two jobs has that makes it faster than the second, in a few words; None where nobody can tell."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one job has shown."""

    speed: Speed
    machine: Processors | None
    figures: limits.Figures


class Standings:
    """Reads the figures of races' jobs. What a job has shown is remembered until it changes."""

    def __init__(self) -> None:
        self._known: Remembered[Shown] = Remembered(room=JOBS_REMEMBERED)
        self._largest: Remembered[LargestLayer | None] = Remembered(room=JOBS_REMEMBERED)

    def largest(self, job: models.Job | None) -> LargestLayer | None:
        """The largest layer of the model that a job trains, and so all of its race's do; None where nothing of it is
        known. A description is large and never changes: it is read once."""
        return None if job is None else self._largest.get(job.id, lambda: _largest(job.description or {}))

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
        seen = {
            member: {
                round_: self._shown(session, job)
                for round_, job in rounds.items()
                if job.state == State.SUCCEEDED
            }
            for member, rounds in own.items()
        }
        ranked = ranking.rank(
            {
                member: {
                    round_: ns for round_, one in rounds.items() if (ns := one.speed.iteration_ns) is not None
                }
                for member, rounds in seen.items()
            },
            {cell.member for cell in outs if cell.condition == number},
        )
        shown = {standing.member: standing for standing in ranked}
        behind = [member for member in range(len(names)) if member not in shown]
        standings = [
            _standing(
                member,
                names[member],
                shown.get(member),
                list(seen.get(member, {}).values()),
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
            sentence=sentence(
                ranked, names, spec.rounds, lambda a, b: _cause(own, a, b, why), beside=spec.beside
            ),
            standings=standings,
        )

    def _shown(self, session: Session, job: models.Job) -> Shown:
        return self._known.get((job.id, job.revision), lambda: _look_at(Source(session, job.id)))


def _largest(description: Mapping[str, Any]) -> LargestLayer | None:
    layers = description.get("layers", [])
    sizes = [sum(math.prod(part["shape"]) for part in layer.get("parameters", ())) for layer in layers]
    if not any(sizes):
        return None
    place = max(range(len(sizes)), key=sizes.__getitem__)
    return LargestLayer(
        name=layer_title(layers[place]["name"], layers[place].get("kind", "")),
        share=sizes[place] / sum(sizes),
        fully_connected=layers[place].get("factors") is not None,
    )


def _look_at(source: Source) -> Shown:
    speed, machine = measure(source), processors(source)
    return Shown(speed=speed, machine=machine, figures=measured.figures(source, speed, machine))


def _standing(
    member: int,
    name: str,
    found: ranking.Standing | None,
    seen: Sequence[Shown],
    out: str | None,
    job_ids: list[str],
) -> schema.Standing:
    interval = found.interval if found else None
    rates = [rate for one in seen if (rate := one.speed.samples_per_s)]
    around = ranking.around(rates)
    figures = limits.mean(one.figures for one in seen)
    limit = limits.limit(figures)
    exposed = None if found is None or figures.exposed is None else figures.exposed * found.iteration_ns
    return schema.Standing(
        member=member,
        name=name,
        rank=found.rank if found else None,
        iteration_ms=found.iteration_ns / 1e6 if found else None,
        samples_per_s=ranking.geometric(rates) if rates else None,
        samples_low=around[0] if around else None,
        samples_high=around[1] if around else None,
        exposed_ms=None if exposed is None else exposed / 1e6,
        times_fastest=found.times_fastest if found else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        significant=found.significant if found else False,
        rounds=found.rounds if found else 0,
        processors=_machine([one.machine for one in seen if one.machine is not None]),
        port_busy=figures.port,
        limit=None
        if limit is None
        else schema.Limit(kind=limit.kind, sentence=limit.sentence, crowded=limit.crowded),
        out=out,
        job_ids=job_ids,
    )


def _machine(rounds: Sequence[Processors]) -> ShownProcessors | None:
    """The mean over rounds."""
    if not rounds:
        return None
    count = len(rounds)
    return ShownProcessors(
        busy=sum(one.busy for one in rounds) / count, own=sum(one.own for one in rounds) / count
    )


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
