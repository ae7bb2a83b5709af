"""Which plan of a race is best, by the four criteria of `races/criteria.py`: reads what its jobs have shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from backend.db import models
from backend.figures.evaluated import Evaluated, evaluated
from backend.figures.source import Source
from backend.figures.speed import Speed, measure
from backend.lifecycle import State
from backend.races.criteria import Course as RunCourse
from backend.races.criteria import Judged, Score, judge, still_rising
from backend.races.fastest import as_ranked
from backend.races.field import Cell, conditions
from backend.races.order import Run
from backend.races.spec import labels
from backend.schemas import best as schema
from backend.services import best_words as words
from backend.services.best_words import Facts
from backend.services.remember import Remembered
from backend.services.standings import Course, Standings
from engine.axes.codec import CODEC
from engine.models.registry import MODELS
from engine.telemetry.estimates import Interval
from engine.telemetry.means import interval_of_mean

JOBS_REMEMBERED = 4_096
METRICS: Mapping[Score, str] = {"accuracy": "test_accuracy", "loss": "test_loss"}


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What one job has shown."""

    evaluations: Evaluated
    speed: Speed
    facts: Facts
    drifts: bool


class Bests:
    """Reads races' evaluations. What a job has shown is remembered until it changes."""

    def __init__(self, standings: Standings) -> None:
        self._standings = standings
        self._known: Remembered[Learned] = Remembered(room=JOBS_REMEMBERED)

    def of(self, session: Session, race_id: str, name: str, course: Course) -> schema.RaceBest:
        """The whole answer, as far as jobs have ended."""
        score = score_of(course.spec.job.model.name)
        return schema.RaceBest(
            race_id=race_id,
            name=name,
            state=course.state,
            score=score,
            seeds=_seeds(course),
            conditions=[
                self._under(session, course, number, score) for number in range(len(conditions(course.spec)))
            ],
        )

    def _under(self, session: Session, course: Course, number: int, score: Score) -> schema.BestCondition:
        names = labels(course.spec.members)
        block_of = self._standings.blocks_of(course, number)
        learned: dict[int, dict[Hashable, Learned]] = {member: {} for member in range(len(names))}
        for (cell, round_), job in sorted(course.jobs.items(), key=lambda item: item[0]):
            if cell.condition == number and job.state == State.SUCCEEDED:
                found = self._learned(session, job, score)
                learned[cell.member][block_of[Run(round_, cell)]] = found
        runs = {
            member: {block: _course(one) for block, one in own.items()} for member, own in learned.items()
        }
        outs = {cell.member for cell in course.outs if cell.condition == number}
        judged = judge(runs, score, outs, reseed=course.spec.reseed)
        if not any(one.drifts for own in learned.values() for one in own.values()):
            speed = as_ranked(judged[0], self._standings.ranked(session, course, number), runs)
            judged = (speed, *judged[1:])
        facts = {member: _mean(one.facts for one in own.values()) for member, own in learned.items() if own}
        every = {one.name: one for one in judged}
        running = course.state == "running"
        return schema.BestCondition(
            condition=conditions(course.spec)[number].text,
            sentence=words.sentence(judged, names, score),
            criteria=[
                _criterion(one, names, score, words.reason(one, every, names, facts), running=running)
                for one in judged
            ],
            curves=[_curve(member, names[member], own, score) for member, own in learned.items() if own],
            notes=list(_notes(course, number, learned, score)),
        )

    def _learned(self, session: Session, job: models.Job, score: Score) -> Learned:
        return self._known.get(
            (job.id, job.revision, score), lambda: _look_at(Source(session, job.id), job, score)
        )


def _seeds(course: Course) -> int:
    """From how many seeds a job has succeeded."""
    ran = {round_ for (_, round_), job in course.jobs.items() if job.state == State.SUCCEEDED}
    return len(ran) if course.spec.reseed else min(1, len(ran))


def score_of(model: str | None) -> Score:
    """Models that score every word of a sample are compared by loss: who guesses the next word right seldom says
    little. All others by accuracy."""
    of_words = any(entry.name == model and entry.target_shape for entry in MODELS)
    return "loss" if of_words else "accuracy"


def _look_at(source: Source, job: models.Job, score: Score) -> Learned:
    speed = measure(source)
    share = None
    if speed.iteration_ns and speed.exposed_ns is not None:
        share = speed.exposed_ns / speed.iteration_ns
    drifts = source.drifts()
    stale = [one for one in source.stale_by_worker().values() if one.contributions] if drifts else []
    total = sum(one.contributions for one in stale)
    facts = Facts(
        exposed=share,
        step_bytes=source.sent_bytes(speed.first, max(speed.last - 1, speed.first)),
        stale=sum((one.mean or 0.0) * one.contributions for one in stale) / total if total else None,
        period=source.period,
        codecs=_codecs(job.plan or {}),
    )
    return Learned(evaluations=evaluated(source, METRICS[score]), speed=speed, facts=facts, drifts=drifts)


def _codecs(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Those by which what travels is changed, each once."""
    entries = [*(plan.get("layers") or []), *(plan.get("edges") or [])]
    found = {
        entry.get(field) for entry in entries if isinstance(entry, dict) for field in ("codec", "answers")
    }
    lossy = {name for name in found if name in CODEC.names and "lossless" not in CODEC[name].traits}
    hook = plan.get("hook")  # of a wrapper; each of them loses something
    return tuple(sorted(lossy | ({hook["name"]} if isinstance(hook, dict) else set())))


def _course(one: Learned) -> RunCourse:
    found = one.evaluations
    return RunCourse(
        samples=tuple(map(float, found.samples)),
        seconds=tuple(map(float, found.seconds)),
        score=tuple(map(float, found.value)),
        samples_per_s=one.speed.samples_per_s,
    )


def _mean(each: Iterable[Facts]) -> Facts:
    """Over rounds, of what is known; what is planned is the same in all."""
    known = list(each)

    def mean(values: Iterable[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return sum(there) / len(there) if there else None

    return Facts(
        exposed=mean(one.exposed for one in known),
        step_bytes=mean(one.step_bytes for one in known),
        stale=mean(one.stale for one in known),
        period=known[0].period,
        codecs=known[0].codecs,
    )


def _criterion(
    judged: Judged, names: Sequence[str], score: Score, reason: str | None, *, running: bool
) -> schema.Criterion:
    return schema.Criterion(
        name=judged.name,
        title=words.title(judged.name, score),
        at=words.place_of(judged),
        verdict=words.verdict(judged, names, score, running=running),
        reason=reason,
        best=[names[member] for member in judged.best] if judged.enough else [],
        rounds=judged.blocks,
        places=[
            schema.BestPlace(
                member=one.member,
                name=names[one.member],
                value=one.value,
                low=own and own[0],
                high=own and own[1],
                behind=one.behind,
                behind_low=one.behind_interval and one.behind_interval[0],
                behind_high=one.behind_interval and one.behind_interval[1],
                worse=one.worse,
                unsure=one.unsure,
                missing=one.missing,
            )
            for one in judged.places
            for own in [one.interval if judged.name == "speed" else possible(one.interval, score)]
        ],
    )


def possible(interval: Interval | None, score: Score) -> Interval | None:
    """As much of a score's interval as it can be: Student's t knows nothing of the ends of a scale."""
    if interval is None:
        return None
    low, high = (max(end, 0.0) for end in interval)
    return (low, min(high, 1.0)) if score == "accuracy" else (low, high)


def _curve(member: int, name: str, own: Mapping[Hashable, Learned], score: Score) -> schema.BestCurve:
    """The mean over rounds of each evaluation that all of them have; it ends where one of them diverged."""
    runs = [one.evaluations for one in own.values()]
    sound = [run.step[: _finite(run.value)] for run in runs]
    common = set(sound[0]).intersection(*sound)
    points = []
    for step in sorted(common):
        at: dict[str, list[float]] = defaultdict(list)
        for run in runs:
            (place,) = np.flatnonzero(run.step == step)[:1]
            for field in ("samples", "sent_bytes", "seconds", "value"):
                at[field].append(float(getattr(run, field)[place]))
        mean = {field: float(np.mean(values)) for field, values in at.items()}
        interval = possible(interval_of_mean(at["value"]), score)
        points.append(
            schema.BestPoint(
                step=step,
                samples=mean["samples"],
                sent_bytes=mean["sent_bytes"] if np.isfinite(mean["sent_bytes"]) else None,
                seconds=mean["seconds"],
                score=mean["value"],
                low=interval and interval[0],
                high=interval and interval[1],
            )
        )
    return schema.BestCurve(member=member, name=name, rounds=len(runs), points=points)


def _finite(values: np.ndarray) -> int:
    """How many there are before the first one that is no finite number."""
    return int(np.isfinite(values).cumprod().sum())


def _notes(
    course: Course, number: int, learned: Mapping[int, Mapping[Hashable, Learned]], score: Score
) -> Iterable[str]:
    names = labels(course.spec.members)
    if not course.spec.reseed:
        yield (
            "All rounds have one seed, so that they show how much the machine's speed differs, and nothing of how much "
            "scores do: `reseed` gives each round its own"
        )
    if len(names) > 1:
        yield "All plans have the same learning rate and schedule: none is helped by one that would suit it better"
    for member, own in learned.items():
        if (cell := Cell(member, number)) in course.outs:
            yield f"{names[member]} takes no part: {course.outs[cell]}"
        elif own and not any(len(one.evaluations.value) for one in own.values()):
            yield f"{names[member]} was never evaluated: `evaluation.every_steps` says when that is done"
    for member, own in learned.items():
        gone = sum(_course(one).diverged for one in own.values())
        if gone:
            yield f"{names[member]} diverged in {gone} of {len(own)} runs: its test {score} was no finite number"
    rising = [
        names[member]
        for member, own in learned.items()
        if 2 * sum(still_rising(_course(one), score) for one in own.values()) > len(own)
    ]
    if rising:
        yield (
            f"Still learning when training ended: {', '.join(rising)}. With more steps they would attain more, and the "
            "verdict on what is attained at all may be another"
        )
    if drifting := [
        names[member] for member, runs in learned.items() if any(one.drifts for one in runs.values())
    ]:
        whose = "worker 0's own model is evaluated where workers do not hold the same one"
        yield f"Before the end, {whose}: {', '.join(drifting)}"
        yield (
            "Time counts from the first step, evaluations included; where workers do not wait for one another, worker "
            "0 evaluates alone and the others train on meanwhile"
        )
    elif any(learned.values()):
        yield "Time counts from the first step, evaluations included"
