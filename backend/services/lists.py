"""The lists: jobs, their attempts, their history. A page at a time, from rollups."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, or_, select

from backend.db import Database, models
from backend.lifecycle import State
from backend.schemas import jobs as schema
from backend.schemas.lists import AttemptQuery, HistoryQuery, JobFilter, JobQuery
from backend.services import cursor as cursors
from backend.services import sorting
from backend.services.jobs import find
from backend.services.views import Views, show_attempt, show_transition
from engine.errors import UnknownNameError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST_NS = 2**62
ID_BEGINNING = re.compile("[0-9a-fA-F-]{4,36}")
"""Fewer characters are looked for in names only."""


class Lists:
    """Lists of one database."""

    def __init__(self, database: Database, views: Views) -> None:
        self._database = database
        self._views = views

    def jobs(self, asked: JobQuery) -> schema.JobPage:
        """In the order that is asked for, else newest first. Raises UserError for a cursor, a state or a column that is
        none."""
        query = select(models.Job).where(*conditions(asked))
        with self._database.read() as session:
            if asked.sort is None:
                key = models.Job.id
                rows, following = cursors.page(session, query, key, limit=asked.limit, cursor=asked.cursor)
            else:
                order = sorting.Order.of(asked.sort)
                rows, following = sorting.page(session, query, order, limit=asked.limit, cursor=asked.cursor)
            items = [self._views.summary(session, row) for row in rows]
        return schema.JobPage(items=items, next_cursor=following)

    def attempts(self, job_id: str, asked: AttemptQuery) -> schema.AttemptPage:
        """Newest first. Raises NotFound, and UserError as `jobs` does."""
        query = select(models.Attempt).where(models.Attempt.job_id == job_id)
        if asked.state:
            query = query.where(models.Attempt.state.in_(_states("state", asked.state)))
        key = models.Attempt.number
        with self._database.read() as session:
            find(session, job_id)
            rows, following = cursors.page(
                session, query, key, limit=asked.limit, cursor=asked.cursor, read=cursors.number
            )
            shown = [show_attempt(session, row) for row in rows]
        return schema.AttemptPage(items=shown, next_cursor=following)

    def history(self, job_id: str, asked: HistoryQuery) -> schema.TransitionPage:
        """Oldest first. Raises NotFound, and UserError as `jobs` does."""
        row = models.Transition
        query = select(row).where(row.job_id == job_id)
        if asked.to_state:
            query = query.where(row.to_state.in_(_states("to_state", asked.to_state)))
        with self._database.read() as session:
            find(session, job_id)
            attempts = select(models.Attempt.id, models.Attempt.number).where(models.Attempt.job_id == job_id)
            numbers: dict[int | None, int | None] = {None: None, **dict(session.execute(attempts).all())}
            if asked.attempt == 0:
                query = query.where(row.attempt_id.is_(None))
            elif asked.attempt is not None:
                chosen = [id_ for id_, number in numbers.items() if number == asked.attempt]
                query = query.where(row.attempt_id.in_(chosen))
            rows, following = cursors.page(
                session,
                query,
                row.id,
                limit=asked.limit,
                cursor=asked.cursor,
                newest_first=False,
                read=cursors.number,
            )
        items = [show_transition(each, numbers[each.attempt_id]) for each in rows]
        return schema.TransitionPage(items=items, next_cursor=following)


def conditions(asked: JobFilter) -> Iterable[ColumnElement[bool]]:
    """What is asked of jobs. Raises UserError for a state that is none."""
    row, spec = models.Job, models.Job.spec
    if asked.state:
        yield row.state.in_(_states("state", asked.state))
    if asked.strategy:
        yield spec["strategy"]["name"].as_string() == asked.strategy
    if asked.model:
        yield _source("model", asked.model)
    if asked.dataset:
        yield _source("data", asked.dataset)
    if asked.rehearsed is not None:
        fidelity = spec["fidelity"].as_string()
        yield fidelity == "rehearse" if asked.rehearsed else or_(fidelity.is_(None), fidelity != "rehearse")
    if asked.baseline:
        yield row.baseline_id == asked.baseline
    if asked.text:
        yield told_by(row, asked.text)
    if asked.created_from:
        yield row.created_unix_ns >= _unix_ns(asked.created_from)
    if asked.created_to:
        yield row.created_unix_ns < _unix_ns(asked.created_to)
    yield from _of_people(asked)


def told_by(row: type[models.Job | models.Race], text: str) -> ColumnElement[bool]:
    """Whether its name has this text, or its id begins so, where the text can be the beginning of one."""
    found = row.name.icontains(text, autoescape=True)
    return or_(found, row.id.startswith(text.lower())) if ID_BEGINNING.fullmatch(text) else found


def _of_people(asked: JobFilter) -> Iterable[ColumnElement[bool]]:
    """What people say of jobs, and the races that they made."""
    row = models.Job
    if asked.owner:
        yield row.owner == asked.owner
    tags = select(models.JobTag.job_id)
    if asked.tag:
        yield row.id.in_(tags.where(models.JobTag.tag == unicodedata.normalize("NFC", asked.tag)))
    if asked.tagged is not None:
        yield row.id.in_(tags) if asked.tagged else row.id.not_in(tags)
    raced = select(models.RaceRun.job_id).where(models.RaceRun.job_id.is_not(None))
    if asked.race:
        yield row.id.in_(raced.where(models.RaceRun.race_id == asked.race))
    if asked.raced is not None:
        yield row.id.in_(raced) if asked.raced else row.id.not_in(raced)


def _source(part: str, name: str) -> ColumnElement[bool]:
    source = models.Job.spec[part]
    return or_(source["name"].as_string() == name, source["entrypoint"].as_string() == name)


def _unix_ns(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    ns = (moment - _EPOCH) // timedelta(microseconds=1) * 1_000
    return max(-_FARTHEST_NS, min(ns, _FARTHEST_NS))


def _states(field: str, names: str) -> list[State]:
    for name in names.split(","):
        if name not in list(State):
            raise UnknownNameError(field, name, "state", State)
    return [State(name) for name in names.split(",")]
