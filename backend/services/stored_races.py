"""What is stored of races, as it is read: a race's row, its jobs, who is out, and its row in the list."""

from __future__ import annotations

import time
from collections import Counter
from typing import cast

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from backend.db import models
from backend.figures.facts import known
from backend.lifecycle import ENDED, State
from backend.races import left
from backend.races.field import Cell, cells
from backend.races.order import Run
from backend.races.spec import FEWEST_ROUNDS, RaceSpec, labels
from backend.schemas import races as schema
from backend.services.errors import NotFound
from backend.services.race_waits import waits
from backend.services.remarks import deleted, was_cancelled
from backend.services.standings import Course
from backend.services.stored import race_of, source_name
from backend.services.times import moment, moment_or_none
from engine.errors import UserError

RUNNING, FINISHED, FAILED, CANCELLED = "running", "finished", "failed", "cancelled"
CHANGED = "race"
"""Kind of the notice that there is a new race, or new members of one."""


def find(session: Session, race_id: str) -> models.Race:
    """The race; raises NotFound."""
    race = session.get(models.Race, race_id)
    if race is None:
        raise NotFound(f"id = {race_id!r}: no such race. GET /api/v1/races lists them")
    return race


def readable(row: models.Race) -> RaceSpec | None:
    """None where another version stored it, and this one cannot read it: a list shows what can be said of it."""
    try:
        return race_of(row)
    except UserError:
        return None


def outs_of(session: Session, race_id: str) -> dict[Cell, str]:
    rows = session.scalars(select(models.RaceOut).where(models.RaceOut.race_id == race_id))
    return {Cell(row.member, row.condition): row.reason for row in rows}


def jobs_of(session: Session, race_id: str) -> dict[tuple[Cell, int], models.Job]:
    """Those that are there, by cell and round."""
    run = models.RaceRun
    query = (
        select(run, models.Job).join(models.Job, models.Job.id == run.job_id).where(run.race_id == race_id)
    )
    return {(Cell(row.member, row.condition), row.round): job for row, job in session.execute(query)}


def course_of(session: Session, row: models.Race) -> Course:
    """Raises UserError where this version cannot read it."""
    runs = session.scalars(select(models.RaceRun).where(models.RaceRun.race_id == row.id)).all()
    jobs = jobs_of(session, row.id)
    # What an older server ran, and somebody deleted since, nobody knows the time of.
    made = {
        Run(one.round, Cell(one.member, one.condition)): one.made_unix_ns
        for one in runs
        if one.made_unix_ns is not None
    }
    return Course(
        spec=race_of(row),
        state=cast(schema.State, row.state),
        jobs=jobs,
        made=made | {Run(round_, cell): job.created_unix_ns for (cell, round_), job in jobs.items()},
        outs=outs_of(session, row.id),
        deleted=[(Cell(one.member, one.condition), one.round) for one in runs if one.job_id is None],
    )


def left_ns(course: Course) -> int | None:
    """How long the race still takes; None where no job of it has succeeded: how long others took says nothing."""
    begun = {
        key: job for key, job in course.jobs.items() if job.started_unix_ns is not None or job.state in ENDED
    }
    done = Counter(cell for cell, _ in (*begun, *course.deleted))
    to_start = {
        cell: course.spec.rounds - done[cell] for cell in cells(course.spec) if cell not in course.outs
    }
    started = [
        left.Started(cell=cell, started_ns=job.started_unix_ns, ended_ns=job.ended_unix_ns)
        for (cell, _), job in begun.items()
        if job.started_unix_ns is not None and (job.state == State.SUCCEEDED or job.state not in ENDED)
    ]
    return left.left_ns(started, to_start, time.time_ns())


def notes(course: Course, summary: schema.RaceSummary) -> list[str]:
    """Of the race as a whole; what concerns a member stands in its remark."""
    ran = [job for job in course.jobs.values() if job.state in ENDED]
    found = [deleted(len(course.deleted))] if course.deleted else []
    if ran and summary.jobs_failed == len(ran) and course.state != RUNNING:
        found.append("Every job of this race failed: nothing was measured")
    elif course.state == FAILED:
        found.append("No job of this race succeeded: nothing was measured")
    return found


def _decided(session: Session, race_id: str) -> bool:
    """Whether two members have ended so many rounds under one condition that a difference could be called one, and
    have not failed in another round."""
    run, out = models.RaceRun, models.RaceOut
    reasons = session.execute(select(out.member, out.condition, out.reason).where(out.race_id == race_id))
    failed = [(member, condition) for member, condition, reason in reasons if not was_cancelled(reason)]
    whole = (
        select(run.condition)
        .join(models.Job, models.Job.id == run.job_id)
        .where(run.race_id == race_id, models.Job.state == State.SUCCEEDED)
        .where(tuple_(run.member, run.condition).not_in(failed))
        .group_by(run.condition, run.member)
        .having(func.count() >= FEWEST_ROUNDS)
        .subquery()
    )
    rows = select(whole.c.condition).group_by(whole.c.condition).having(func.count() > 1).limit(1)
    return session.execute(rows).first() is not None


def summary(session: Session, row: models.Race, spec: RaceSpec | None) -> schema.RaceSummary:
    run, out = models.RaceRun, models.RaceOut
    made = session.scalar(select(func.count()).select_from(run).where(run.race_id == row.id)) or 0
    going = (
        session.scalar(
            select(func.count())
            .select_from(run)
            .join(models.Job, models.Job.id == run.job_id)
            .where(run.race_id == row.id, models.Job.state.not_in(ENDED))
        )
        or 0
    )
    gone = {
        Cell(member, condition): rounds
        for member, condition, rounds in session.execute(
            select(out.member, out.condition, func.count(run.round))
            .outerjoin(
                run,
                (run.race_id == out.race_id) & (run.member == out.member) & (run.condition == out.condition),
            )
            .where(out.race_id == row.id)
            .group_by(out.member, out.condition)
        )
    }
    failed = session.scalar(
        select(func.count())
        .select_from(run)
        .join(models.Job, models.Job.id == run.job_id)
        .where(run.race_id == row.id, models.Job.state == State.FAILED)
    )
    members, whole = [], made
    if spec is not None:
        members = labels(spec.members)
        whole = len(cells(spec)) * spec.rounds - sum(spec.rounds - rounds for rounds in gone.values())
    return schema.RaceSummary(
        id=row.id,
        name=row.name,
        owner=row.owner,
        state=cast(schema.State, row.state),
        waits=waits(session, row) if row.state == RUNNING else None,
        members=members,
        model=source_name(known(row.spec, "job.model", dict) or {}),
        rehearsed=spec.job.rehearsed if spec is not None else None,
        slowed=spec.job.slowed if spec is not None else None,
        jobs=whole,
        jobs_ended=made - going,
        jobs_failed=failed or 0,
        decided=_decided(session, row.id),
        created_at=moment(row.created_unix_ns),
        ended_at=moment_or_none(row.ended_unix_ns),
    )
