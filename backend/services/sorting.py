"""Lists of jobs in any order, a page at a time: by a column, then by id, so that every row has one place.

A cursor holds the last row's value and id, and the moment of the first page: what still runs grows older from page to
page, and must not change places meanwhile. Rows without a value come last, whichever way the list goes.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, String, and_, case, cast, func, or_
from sqlalchemy.orm import Session

from backend.db import models
from backend.lifecycle import State
from backend.services import cursor as cursors
from engine.errors import UnknownNameError
from engine.plan.serde import is_unicode

TEXT_LENGTH = 100
"""So many characters of a text decide its place: a cursor holds them."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a list is sorted by."""

    name: str
    """A column of COLUMNS."""
    descending: bool

    @classmethod
    def of(cls, text: str) -> Order:
        """`loss`, or `-loss` for the largest first. Raises UnknownNameError, listing the columns."""
        name = text.removeprefix("-")
        if name not in COLUMNS:
            raise UnknownNameError("sort", name, "column", COLUMNS)
        return cls(name=name, descending=text.startswith("-"))

    @property
    def text(self) -> str:
        return f"-{self.name}" if self.descending else self.name


def model_name() -> ColumnElement[str]:
    """A job's model: its name, or its entry point."""
    model = models.Job.spec["model"]
    return func.coalesce(model["name"].as_string(), model["entrypoint"].as_string())


def strategy_name() -> ColumnElement[str]:
    found: ColumnElement[str] = models.Job.spec["strategy"]["name"].as_string()
    return found


_STATES = case({state.value: place for place, state in enumerate(State)}, value=models.Job.state)
COLUMNS: dict[str, type] = {
    "name": str,
    "state": int,
    "strategy": str,
    "model": str,
    "workers": int,
    "step": int,
    "loss": float,
    "test_accuracy": float,
    "samples_per_s": float,
    "speed_up": float,
    "created_at": int,
    "duration": int,
    "priority": int,
}
"""What a list can be sorted by, and the kind of its values. A state's is its place in a job's life."""
_WIDE = {"created_at", "duration"}
"""Columns whose whole numbers have 64 bits in a database; others have 32."""
_DIGITS = 9
"""So many always fit into 32 bits."""


def _number(text: ColumnElement[str]) -> ColumnElement[int | None]:
    """The whole number that a specification says; NULL where it says something else, as a damaged row may: to cast
    that would be an error of the whole list."""
    text = cast(text, String)  # SQLite has the number itself here
    digits = and_(text != "", func.ltrim(text, "0123456789") == "", func.length(text) <= _DIGITS)
    return case((digits, cast(text, Integer)))


def page(
    session: Session, query: Select[models.Job], order: Order, *, limit: int, cursor: str | None
) -> tuple[list[models.Job], str | None]:
    """At most `limit` rows of `query` after `cursor`, and the cursor of what follows. Raises UserError for a cursor of
    another list, or of another order."""
    now, after = time.time_ns(), None
    if cursor is not None:
        now, *after = _decode(cursor, order)
    value = _column(order.name, now)
    figures = models.JobFigures
    rows = query.add_columns(value.label("sorted_by")).select_from(models.Job)
    rows = rows.outerjoin(figures, figures.job_id == models.Job.id)
    if after is not None:
        rows = rows.where(_beyond(value, order, *after))
    falling = order.descending
    rows = rows.order_by(
        value.is_(None),
        value.desc() if falling else value,
        models.Job.id.desc() if falling else models.Job.id,
    )
    found = session.execute(rows.limit(limit + 1)).all()
    jobs = [job for job, _ in found[:limit]]
    if len(found) <= limit:
        return jobs, None
    last, at = found[limit - 1]
    return jobs, cursors.encode(json.dumps([order.text, now, at, last.id], ensure_ascii=False))


def _column(name: str, now: int) -> ColumnElement[Any]:
    job, figures = models.Job, models.JobFigures
    found: dict[str, ColumnElement[Any]] = {
        "name": func.substr(func.lower(job.name), 1, TEXT_LENGTH),
        "state": _STATES,
        "strategy": func.substr(strategy_name(), 1, TEXT_LENGTH),
        "model": func.substr(model_name(), 1, TEXT_LENGTH),
        "workers": _number(job.spec["cluster"]["workers"].as_string()),
        "step": figures.step.expression,
        "loss": figures.loss.expression,
        "test_accuracy": figures.test_accuracy.expression,
        "samples_per_s": figures.samples_per_s.expression,
        "speed_up": figures.speed_up.expression,
        "created_at": job.created_unix_ns.expression,
        "duration": func.coalesce(job.ended_unix_ns, now) - job.started_unix_ns,
        "priority": job.priority.expression,
    }
    return found[name]


def _beyond(value: ColumnElement[Any], order: Order, at: Any, last: str) -> ColumnElement[bool]:
    """Rows after the one with this value and id."""
    id_ = models.Job.id
    same = id_ < last if order.descending else id_ > last
    if at is None:
        return and_(value.is_(None), same)
    further = value < at if order.descending else value > at
    return or_(further, and_(value == at, same), value.is_(None))


def _decode(cursor: str, order: Order) -> tuple[int, Any, str]:
    """The moment of the first page, the last row's value, and its id."""
    try:
        text, now, at, last = json.loads(cursors.decode(cursor))
    except (ValueError, TypeError):
        raise cursors.refused(cursor) from None
    largest = cursors.LARGEST if order.name in _WIDE else 2**31 - 1
    fits = at is None or _is_a(COLUMNS[order.name], at, largest)
    if text != order.text or not (fits and _is_a(int, now) and _is_a(str, last)):
        raise cursors.refused(cursor)
    return now, at, last


def _is_a(kind: type, value: Any, largest: int = cursors.LARGEST) -> bool:
    """Whether a database can compare a column of this kind, whose whole numbers are at most `largest`, with it."""
    if kind is str:
        return isinstance(value, str) and is_unicode(value) and "\0" not in value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int):
        return abs(value) <= largest
    return kind is float and math.isfinite(value)
