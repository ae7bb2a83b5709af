"""Telemetry that is old goes, and what it says of the job stays: by partitions on PostgreSQL, by rows on SQLite."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from backend.db import Database, partitions
from backend.db.models import Attempt, Base, Job
from backend.ingest import IngestError, accept
from backend.postgres import Cluster
from backend.services.retention import DAY_NS, EVERY_S, Retention
from engine.telemetry import batch as wire
from tests.backend.recorded_run import TOKEN, Run, record_run

DAYS = 7.0
STAYS = ("step_rows", "metrics", "links")


@pytest.fixture
def database(new_database: Database) -> Database:
    """One for each test."""
    return new_database


def recorded(database: Database, first: int) -> Run:
    """A run whose attempt has this number, on PostgreSQL."""
    if database.shared:
        following = text(f"ALTER SEQUENCE attempts_id_seq RESTART {first}")
        database.writer.run(lambda session: session.execute(following))
    return record_run(database, "p3", steps=3)


def ended(database: Database, run: Run, days: float) -> None:
    """It has ended so long ago."""

    def write(session: Session) -> None:
        attempt = session.get_one(Attempt, run.attempt)
        attempt.state = attempt.job.state = "succeeded"
        attempt.job.message = "All its processes did their work."
        attempt.ended_unix_ns = time.time_ns() - round(days * DAY_NS)

    database.writer.run(write)


def rows(database: Database, run: Run) -> dict[str, int]:
    """Of every table of telemetry that has some."""
    found: dict[str, Any] = {}
    with database.read() as session:
        for name in (*partitions.parted(), *STAYS):
            table = Base.metadata.tables[name]
            count = select(func.count()).select_from(table).where(table.c.attempt_id == run.attempt)
            found[name] = session.scalar(count)
    return {name: count for name, count in found.items() if count}


def test_what_is_old_goes_and_what_it_says_of_the_job_stays(database: Database) -> None:
    runs = [recorded(database, first) for first in (1, 150, 151, 250)]
    oldest, old, young, goes_on = runs
    before = [rows(database, run) for run in runs]
    assert {"batches", "layer_totals", "link_bins", "layer_waits", "transfer_totals", "detailed_steps"} < set(
        before[0]
    )
    for run, days in ((oldest, DAYS + 1), (old, DAYS + 1), (young, DAYS - 1)):
        ended(database, run, days)
    retention = Retention(database, DAYS)
    assert retention.look() == EVERY_S
    kept = {name: count for name, count in before[0].items() if name in STAYS}
    assert rows(database, oldest) == kept
    # On PostgreSQL it lies in one partition with a younger one.
    assert rows(database, old) == (before[1] if database.shared else kept)
    assert [rows(database, run) for run in (young, goes_on)] == before[2:]
    with database.read() as session:
        said = session.get_one(Job, oldest.job_id)
        parts = partitions.there(session.connection()) if database.shared else None
    assert parts == ([100, 200] if database.shared else None)
    assert str(said.message).startswith(
        "All its processes did their work. What it recorded by layer and by link was"
    )

    ended(database, young, DAYS + 1)
    revision = said.revision
    retention.look()
    assert [rows(database, run) for run in runs] == [kept, kept, kept, before[3]]
    with database.read() as session:
        again = session.get_one(Job, oldest.job_id)
        assert (again.revision, again.message) == (revision, said.message), "once"


def test_a_batch_that_comes_after_all_is_refused(database: Database) -> None:
    run = recorded(database, 1)
    recorded(database, 100)
    ended(database, run, DAYS + 1)
    Retention(database, DAYS).look()
    late = wire.encode(wire.Batch(attempt=run.attempt, party=0, name="worker 0", sequence=0))
    with pytest.raises(
        IngestError, match="so old that its telemetry was removed: it takes no more"
    ) as refused:
        accept(database, run.attempt, TOKEN, late)
    assert refused.value.status == 410


def test_a_partition_is_there_before_its_first_attempt(postgres: Cluster) -> None:
    database = Database(postgres.new_schema())
    recorded(database, 1_234)
    with database.read() as session:
        assert partitions.there(session.connection()) == [0, 1_200]
        where = session.scalars(text("SELECT DISTINCT tableoid::regclass::text FROM layer_totals")).all()
    assert where == ["layer_totals_p1200"]
    database.close()
