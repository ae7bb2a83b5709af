"""Deleting a job: everything that was recorded of it, its directories, then its row.

In this order, so that a server that dies on the way leaves a job that can be deleted again. Telemetry goes in
portions, each a transaction of its own: what other jobs record must not wait for millions of rows. And it goes in
several calls where it is much, so that whoever waits sees how far it is.
"""

from __future__ import annotations

import time
from functools import partial

from sqlalchemy import CursorResult, Table, delete, func, select, tuple_
from sqlalchemy.orm import Session

from backend.db import Database, models, notify
from backend.executors.attempt_files import FilesOf
from backend.lifecycle import ENDED, said
from backend.scheduler import record
from backend.schemas.jobs import Deletion
from backend.services.errors import Conflict

PORTION = 2_000
"""Rows of one transaction."""
PORTION_OF_BATCHES = 20
"""The same for raw batches, which are large."""
WITHIN_S = 4.0
"""After so long a call answers how much is left."""
PARTLY = "partly deleted: what was recorded of it is not whole any more. Delete it again to remove the rest"
"""Of a job whose deletion was broken off."""
DELETED = "deleted"
"""Kind of the notice that says so; it belongs to no job, since that is gone."""


def remove(database: Database, job: models.Job, files: FilesOf) -> Deletion | None:
    """Delete `job`, which must have ended: all of it (None), or as much as goes within about WITHIN_S, one portion at
    least, and the next call goes on. Jobs that it was the baseline of have none from then on.

    Raises Conflict where it has not ended, or where its files cannot be removed, and FilesAwayError before anything is
    deleted where they cannot be reached.
    """
    _check(job)
    for attempt in job.attempts:
        files(attempt.directory).there()
    tables = [
        table for table in models.Base.metadata.tables.values() if "attempt_id" in table.primary_key.columns
    ]
    deadline, deleted = time.monotonic() + WITHIN_S, 0
    for attempt in job.attempts:
        for table in tables:
            while rows := database.writer.run(partial(portion, table=table, attempt_id=attempt.id)):
                deleted += rows
                if time.monotonic() > deadline and (left := _left(database, job, tables)):
                    database.writer.run(lambda session: _say_partly(session, job.id))
                    return Deletion(rows_deleted=deleted, rows_left=left)
    for attempt in job.attempts:
        try:
            files(attempt.directory).remove(job.id)
        except OSError as error:
            raise Conflict(
                f"{attempt.directory} cannot be removed: {error}. Remove it, then delete the job again"
            ) from None
    database.writer.run(lambda session: _remove_row(session, job.id))
    return None


def _say_partly(session: Session, job_id: str) -> None:
    """Whoever asked may not ask again."""
    job = session.get(models.Job, job_id)
    if job is not None and job.message != PARTLY:
        job.message = PARTLY
        record.tell(session, job)


def _left(database: Database, job: models.Job, tables: list[Table]) -> int:
    """Rows of a job's telemetry."""
    attempts = [attempt.id for attempt in job.attempts]
    with database.read() as session:
        return sum(
            session.scalar(select(func.count()).select_from(table).where(table.c.attempt_id.in_(attempts)))
            or 0
            for table in tables
        )


def _check(job: models.Job) -> None:
    if job.state not in ENDED:
        raise Conflict(
            f"job {job.id} is {said(job.state)}: only a job that has ended can be deleted. Cancel it first"
        )


def portion(session: Session, table: Table, attempt_id: int) -> int:
    """Delete the first rows of one attempt; how many, 0 once there are none."""
    size = PORTION_OF_BATCHES if table is models.Batch.__table__ else PORTION
    mine = table.c.attempt_id == attempt_id
    key = [column for column in table.primary_key.columns if column is not table.c.attempt_id]
    beyond = session.execute(select(*key).where(mine).order_by(*key).offset(size).limit(1)).first()
    rows = delete(table).where(mine)
    done = session.execute(rows if beyond is None else rows.where(tuple_(*key) < tuple_(*beyond)))
    assert isinstance(done, CursorResult)
    return done.rowcount


def _remove_row(session: Session, job_id: str) -> None:
    job = session.get(models.Job, job_id)
    if job is None:
        return  # somebody else was faster
    _check(job)
    for other in session.scalars(select(models.Job).where(models.Job.baseline_id == job_id)):
        other.baseline_id = None  # what was measured against it stays, with its name
        record.tell(session, other)
    session.execute(delete(models.Job).where(models.Job.id == job_id))  # the rest follows by its foreign keys
    notify(session, None, DELETED, {"job_id": job_id})
