"""What other programs take along of a job or a race: its records as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backend.db import Database
from backend.schemas.exports import TablesQuery
from backend.services import parquet, stored_races
from backend.services.jobs import find
from backend.services.record_tables import TABLES
from backend.services.records import Columns, Place, Records
from backend.services.views import attempt_of
from engine.errors import UnknownNameError, UserError

LAST_STEP = 2**31 - 1
ALONE = Place()


class Exports:
    """Of the jobs and races of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_job(self, job_id: str, asked: TablesQuery) -> Iterator[bytes]:
        """A ZIP of Parquet files, piece by piece. Before the first piece it raises NotFound, UserError for an attempt
        that there is not, a table that there is not or a range that ends before it begins, and Conflict where the
        server lacks what writes them."""
        tables = _tables(asked)
        with self._database.read() as session:
            attempt_of(session, find(session, job_id), asked.attempt)
        return self._archive(tables, [self._records(job_id, asked)])

    def of_race(self, race_id: str, asked: TablesQuery) -> Iterator[bytes]:
        """The same of every job that a race has made, in the order of its conditions, rounds and members."""
        tables = _tables(asked)
        with self._database.read() as session:
            stored_races.find(session, race_id)
            jobs = {
                (cell.condition, round_, cell.member): job.id
                for (cell, round_), job in stored_races.jobs_of(session, race_id).items()
            }
        records = [
            self._records(job_id, asked, Place(member=member, condition=condition, round=round_))
            for (condition, round_, member), job_id in sorted(jobs.items())
        ]
        return self._archive(tables, records)

    def _records(self, job_id: str, asked: TablesQuery, place: Place = ALONE) -> Records:
        return Records(
            database=self._database,
            job_id=job_id,
            number=asked.attempt,
            first=asked.step_from or 0,
            last=LAST_STEP if asked.step_to is None else asked.step_to,
            place=place,
        )

    def _archive(self, tables: Sequence[str], records: Sequence[Records]) -> Iterator[bytes]:
        return parquet.archive({table: _pages(table, records) for table in tables})


def _pages(table: str, records: Sequence[Records]) -> Iterator[tuple[str, Columns]]:
    for one in records:
        for page in one.pages(table):
            yield one.job_id, page


def _tables(asked: TablesQuery) -> list[str]:
    parquet.check()
    first, last = asked.step_from or 0, asked.step_to
    if last is not None and last < first:
        raise UserError("step_to", last, f"comes before step_from = {first}", "Give the smaller one first")
    names = list(TABLES) if asked.tables is None else asked.tables.split(",")
    for name in names:
        if name not in TABLES:
            raise UnknownNameError("tables", name, "table", TABLES)
    return list(dict.fromkeys(names))
