"""Rows that are copied into PostgreSQL are the same as those that are written one by one, and so are the errors."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import DetailedStep, LayerTotal, Link, LinkBin, Metric, StepRow
from backend.ingest import upsert
from backend.postgres import Cluster
from tests.backend.ingest_server import add_attempt

MANY = 60
ADDED = {LayerTotal: frozenset({"count", "busy_ns", "bytes", "exposed_ns"}), LinkBin: frozenset({"bytes"})}


@pytest.fixture
def database(postgres: Cluster) -> Any:
    opened = Database(postgres.new_schema())
    yield opened
    opened.close()


def rows_of(attempt: int) -> dict[Any, list[tuple[Any, ...]]]:
    """More than a few of every shape: numbers alone, texts, values that are not known, keys alone."""
    some = range(MANY)
    return {
        LayerTotal: [(attempt, n, 0, -1, 3, 2, 1, 2**40 + n, n, 0) for n in some],
        LinkBin: [(attempt, 0, 1, f'e\t"{n % 3}\\N\n', n, 0, -2, 2**50) for n in some],
        StepRow: [(attempt, n, 0, -1, n, 16, None if n % 2 else 0.1 * n, 0, 2**62, 0) for n in some],
        Metric: [(attempt, "test ✓", n, n, None if n % 2 else 1 / (n + 1)) for n in some],
        DetailedStep: [(attempt, n, 0) for n in some],
        Link: [(attempt, n, "eth0", "", None, "unknown", n % 2 == 0, False) for n in some],
    }


def stored(database: Database, attempt: int) -> dict[Any, list[tuple[Any, ...]]]:
    """Everything of an attempt, without its number."""
    with database.read() as session:
        return {
            model: sorted(
                (
                    tuple(row)[1:]
                    for row in session.execute(select(*model.__table__.columns))
                    if row[0] == attempt
                ),
                key=repr,
            )
            for model in rows_of(0)
        }


def put(session: Session, attempt: int, *, twice: bool) -> None:
    for model, rows in rows_of(attempt).items():
        upsert.upsert(session, model, [*rows, *rows[:3]] if twice else rows, ADDED.get(model, frozenset()))


@pytest.mark.parametrize("twice", [False, True], ids=["each key once", "keys come twice in a batch"])
def test_copied_rows_are_those_written_one_by_one(
    database: Database, monkeypatch: pytest.MonkeyPatch, twice: bool
) -> None:
    copied, single = add_attempt(database), add_attempt(database)
    for _ in range(2):  # the second time every key is there
        database.writer.run(lambda session: put(session, copied, twice=twice))
    there = (
        "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relname LIKE 'staged_%'"
    )
    assert database.writer.run(lambda session: session.scalar(text(there))) == (
        0 if twice else len(rows_of(0))
    ), "what was copied"
    monkeypatch.setattr(upsert, "COPIED_FROM", 10**9)
    for _ in range(2):
        database.writer.run(lambda session: put(session, single, twice=twice))
    found = stored(database, copied)
    assert found == stored(database, single)
    assert all(len(rows) == MANY for rows in found.values())
    with database.read() as session:
        totals = session.scalar(select(func.sum(LayerTotal.count)).where(LayerTotal.attempt_id == copied))
    assert totals == 2 * (MANY + (3 if twice else 0))


@pytest.mark.parametrize("least", [1, 10**9], ids=["copied", "one by one"])
def test_what_a_column_cannot_hold_is_refused_with_the_same_error(
    database: Database, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(upsert, "COPIED_FROM", least)
    attempt = add_attempt(database)
    links = [(attempt, n, "x" * (64 + n), "", None, "unknown", False, False) for n in range(2)]
    steps = [(attempt, 2**40, 0)]
    for model, rows in ((Link, links), (DetailedStep, steps)):
        with pytest.raises(DataError):
            database.writer.run(lambda session, m=model, r=rows: upsert.upsert(session, m, r, frozenset()))
    assert not any(stored(database, attempt).values())
    links = [(*link[:2], "x" * 64, *link[3:]) for link in links]
    database.writer.run(lambda session: upsert.upsert(session, Link, links, frozenset()))
    assert len(stored(database, attempt)[Link]) == 2, "the session goes on"
