"""What a race's jobs have shown so far: rankings under every condition, why, and what limits each member."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from backend.db import models
from backend.figures import limits as measured
from backend.figures.processors import Processors, processors
from backend.figures.source import Source
from backend.figures.speed import Speed, measure
from backend.lifecycle import ENDED, State
from backend.races import ranking
from backend.races.blocks import blocks, joined_ns
from backend.races.field import Cell, conditions
from backend.races.order import Run
from backend.races.spec import RaceSpec, labels
from backend.schemas import races as schema
from backend.schemas.telemetry import Processors as ShownProcessors
from backend.services.crowded import crowded
from backend.services.remarks import Happened, beside_fastest, remark, was_cancelled
from backend.services.remember import Remembered
from backend.services.suggestions import LargestLayer
from backend.services.verdict import gains, verdict
from engine.plan.description import layer_title
from engine.plan.fingerprint import Fingerprint, another_model, fingerprint
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


@dataclass(frozen=True, kw_only=True)
class Course:
    """What is stored of a race and its jobs."""

    spec: RaceSpec
    state: schema.State
    jobs: Mapping[tuple[Cell, int], models.Job]
    """By cell and round."""
    made: Mapping[Run, int]
    """When each job was made, in ns: also those that somebody deleted."""
    outs: Mapping[Cell, str]
    """Who takes part no more, and why."""
    deleted: Collection[tuple[Cell, int]] = ()
    """Jobs that somebody deleted."""

    @property
    def failed(self) -> set[Cell]:
        """Who takes part no more, and was not cancelled."""
        return {cell for cell, reason in self.outs.items() if not was_cancelled(reason)}


class Standings:
    """Reads the figures of races' jobs. What a job has shown is remembered until it changes."""

    def __init__(self) -> None:
        self._known: Remembered[Shown] = Remembered(room=JOBS_REMEMBERED)
        self._fingerprints: Remembered[Fingerprint | None] = Remembered(room=JOBS_REMEMBERED)
        self._largest: Remembered[LargestLayer | None] = Remembered(room=JOBS_REMEMBERED)

    def largest(self, job: models.Job | None) -> LargestLayer | None:
        """The largest layer of the model that a job trains, and so all of its race's do; None where nothing of it is
        known. A description is large and never changes: it is read once."""
        return None if job is None else self._largest.get(job.id, lambda: _largest(job.description or {}))

    def rankings(self, session: Session, course: Course, why: Why) -> list[schema.Ranking]:
        """One for each condition."""
        return [
            self.ranking_under(session, course, number, why) for number in range(len(conditions(course.spec)))
        ]

    def ranking_under(self, session: Session, course: Course, number: int, why: Why) -> schema.Ranking:
        """The one of the condition with that number."""
        spec, names, condition = course.spec, labels(course.spec.members), conditions(course.spec)[number]
        own = _by_member(course, number)
        seen = self._seen(session, course, number)
        ranked = _ranked(course, number, seen)
        shown = {standing.member: standing for standing in ranked}
        joined = joined_ns(course.made, number)
        remarks = self._remarks(course, number, own, shown, joined)
        behind = [member for member in range(len(names)) if member not in shown]
        standings = [
            _standing(
                member,
                names[member],
                shown.get(member),
                [seen[member][block] for block in shown[member].over] if member in shown else [],
                course.outs.get(Cell(member, number)),
                [job.id for _, job in sorted(own[member].items())],
                remarks.get(member),
                joined.get(member),
            )
            for member in (*shown, *behind)
        ]
        said = verdict(
            ranked,
            names,
            spec.rounds,
            lambda a, b: _cause(own, a, b, why),
            beside=spec.beside,
            state=course.state,
            remarks=remarks,
            crowded=any(map(crowded, standings)),
        )
        return schema.Ranking(
            condition=condition.text,
            rate=condition.rate,
            workers=condition.workers,
            batch=condition.batch,
            headline=said.headline,
            sentence=said.sentence,
            gains=gains(ranked, names),
            standings=standings,
        )

    def ranked(self, session: Session, course: Course, number: int) -> list[ranking.Standing]:
        """Who is ahead under the condition with that number, and how certainly."""
        return _ranked(course, number, self._seen(session, course, number))

    def _seen(self, session: Session, course: Course, number: int) -> dict[int, dict[Hashable, Shown]]:
        """By member and block, what its jobs have shown that have figures."""
        block_of = self.blocks_of(course, number)
        return {
            member: {
                block_of[Run(round_, Cell(member, number))]: one
                for round_, job in jobs.items()
                if job.state == State.SUCCEEDED
                and (one := self._shown(session, job)).speed.iteration_ns is not None
            }
            for member, jobs in _by_member(course, number).items()
        }

    def blocks_of(self, course: Course, number: int) -> dict[Run, Hashable]:
        """The block of every job under a condition. Models that differ share none, so that they are not compared."""
        model = next(filter(None, map(self._model, _by_age(course.jobs.values()))), None)
        block_of = blocks(course.made, number)
        return {
            run: (self._other(job, model), *block_of[run])
            for (cell, round_), job in course.jobs.items()
            if cell.condition == number and (run := Run(round_, cell)) in block_of
        }

    def _remarks(
        self,
        course: Course,
        condition: int,
        own: Mapping[int, Mapping[int, models.Job]],
        shown: Mapping[int, ranking.Standing],
        joined: Mapping[int, int],
    ) -> dict[int, str]:
        """What to know of each member's place, where there is something; `shown`: the fastest first."""
        first = own[next(iter(shown))] if shown else {}
        remarks = {}
        for member in range(len(course.spec.members)):
            found, jobs = shown.get(member), own.get(member, {})
            text = remark(
                Happened(
                    rounds=found.rounds if found else 0,
                    compared=found is not None and found.times_fastest is not None,
                    placed=found is not None and found.rank is not None,
                    lost=_lost(jobs),
                    failed=Cell(member, condition) in course.failed,
                    beside=beside_fastest(found.beside if found else None, labels(course.spec.members)),
                    deleted=sum(cell == Cell(member, condition) for cell, _ in course.deleted),
                    joined_s=joined[member] / 1e9 if member in joined else None,
                    other_model=self._other_model(jobs.values(), first.values()),
                ),
                running=course.state == "running",
            )
            if text is not None:
                remarks[member] = text
        return remarks

    def _model(self, job: models.Job) -> Fingerprint | None:
        """Of what a job trained. A description is large and never changes: it is read once."""
        return self._fingerprints.get(job.id, lambda: fingerprint(job.description))

    def _other(self, job: models.Job, model: Fingerprint | None) -> str:
        """Names the model that a job trained; empty where it is this one, as far as anybody knows."""
        own = self._model(job)
        return own.sha256 if own is not None and another_model(model, own) else ""

    def _other_model(self, jobs: Iterable[models.Job], others: Iterable[models.Job]) -> str | None:
        """How the one's models differ from the others' first one."""
        theirs = next(iter(others), None)
        known = None if theirs is None else self._model(theirs)
        return next(filter(None, (another_model(known, self._model(job)) for job in jobs)), None)

    def _shown(self, session: Session, job: models.Job) -> Shown:
        return self._known.get((job.id, job.revision), lambda: _look_at(Source(session, job.id)))


def _by_member(course: Course, number: int) -> dict[int, dict[int, models.Job]]:
    """The jobs under a condition, by member and round."""
    own: dict[int, dict[int, models.Job]] = defaultdict(dict)
    for (cell, round_), job in sorted(course.jobs.items(), key=lambda item: item[0]):
        if cell.condition == number:
            own[cell.member][round_] = job
    return own


def _ranked(
    course: Course, number: int, seen: Mapping[int, Mapping[Hashable, Shown]]
) -> list[ranking.Standing]:
    return ranking.rank(
        {
            member: {block: one.speed.iteration_ns or 0.0 for block, one in rounds.items()}
            for member, rounds in seen.items()
        },
        {cell.member for cell in course.outs if cell.condition == number},
        failed={cell.member for cell in course.failed if cell.condition == number},
        errors={
            member: {block: one.speed.error or 0.0 for block, one in rounds.items()}
            for member, rounds in seen.items()
        },
    )


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
    remark: str | None,
    joined: int | None,
) -> schema.Standing:
    interval = found.interval if found else None
    over_baseline = found.speed_up_interval if found else None
    rates = [rate for one in seen if (rate := one.speed.samples_per_s)]
    around = ranking.around(rates)
    figures = limits.mean(one.figures for one in seen)
    limit = limits.limit(figures)
    exposed = None if found is None or figures.exposed is None else figures.exposed * found.iteration_ns
    return schema.Standing(
        member=member,
        name=name,
        rank=found.rank if found else None,
        tied=found.tied if found else False,
        iteration_ms=found.iteration_ns / 1e6 if found else None,
        samples_per_s=ranking.geometric(rates) if rates else None,
        samples_low=around[0] if around else None,
        samples_high=around[1] if around else None,
        exposed_ms=None if exposed is None else exposed / 1e6,
        times_fastest=found.times_fastest if found else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        significant=found.significant if found else False,
        unsure=found.unsure if found else False,
        missing=found.missing if found else None,
        speed_up=found.speed_up if found else None,
        speed_up_low=over_baseline[0] if over_baseline else None,
        speed_up_high=over_baseline[1] if over_baseline else None,
        rounds=found.rounds if found else 0,
        processors=_machine([one.machine for one in seen if one.machine is not None]),
        port_busy=figures.port,
        one_port_busy=figures.one_port,
        limit=None
        if limit is None
        else schema.Limit(kind=limit.kind, sentence=limit.sentence, crowded=limit.crowded),
        out=out,
        remark=remark,
        joined_s=None if joined is None else joined / 1e9,
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


def _by_age(jobs: Iterable[models.Job]) -> list[models.Job]:
    return sorted(jobs, key=lambda job: (job.created_unix_ns, job.id))


def _lost(jobs: Mapping[int, models.Job]) -> str | None:
    """`failed in round 2`: the first job that ended in another way than by success."""
    for round_, job in sorted(jobs.items()):
        if job.state in ENDED and job.state != State.SUCCEEDED:
            was = "was cancelled" if job.state == State.CANCELLED else job.state
            return f"{was} in round {round_ + 1}"
    return None


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
