"""Sorted lists in both databases: what no column can hold, and what one damaged row does."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.services import cursor as cursors
from backend.services.sorting import COLUMNS, Order, page
from engine.errors import UserError
from tests.backend.recorded_run import add_job


def names(database: Database, sort: str, limit: int = 1) -> list[str]:
    """Of all pages."""
    found, cursor = [], None
    with database.read() as session:
        while True:
            rows, cursor = page(session, select(models.Job), Order.of(sort), limit=limit, cursor=cursor)
            found += [row.name for row in rows]
            if cursor is None:
                return found


@pytest.mark.parametrize("sort", [name for name, kind in COLUMNS.items() if kind is int])
def test_a_number_that_its_column_cannot_hold_is_refused(database: Database, sort: str) -> None:
    add_job(database, "any", started=1)
    taken, refused = [], []
    for number in (2**31 - 1, 2**31, 2**62, 2**63):
        cursor = cursors.encode(json.dumps([sort, 1, number, "x"]))
        with database.read() as session:
            try:
                page(session, select(models.Job), Order.of(sort), limit=1, cursor=cursor)
                taken.append(number)
            except UserError as error:
                refused.append(error.field)
    wide = sort in ("created_at", "duration")
    assert taken == [2**31 - 1, 2**31, 2**62][: 3 if wide else 1]
    assert refused == ["cursor"] * (4 - len(taken))


def test_a_row_that_says_no_number_comes_last_and_breaks_no_list(new_database: Database) -> None:
    said = {"few": 2, "many": 10, "words": "two", "part": 1.5, "huge": 10**12, "list": [2], "none": None}
    ids = {name: add_job(new_database, name, started=place)[0] for place, name in enumerate(said)}

    def write(session: Session) -> None:
        for name, workers in said.items():
            job = session.get_one(models.Job, ids[name])
            job.spec = {**job.spec, "cluster": {"workers": workers}}

    new_database.writer.run(write)
    assert names(new_database, "workers")[:2] == ["few", "many"]
    assert names(new_database, "-workers")[:2] == ["many", "few"]
    assert sorted(names(new_database, "workers")) == sorted(said)
