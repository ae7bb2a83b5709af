"""Deleting a job: everything that was recorded of it, its directories, then its row.

In this order, so that a server that dies on the way leaves a job that can be deleted again. Telemetry goes in
portions, each a transaction of its own: what other jobs record must not wait for millions of rows.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

from sqlalchemy import Table, delete, select, tuple_
from sqlalchemy.orm import Session

from backend.db import Database, models, notify
from backend.lifecycle import ENDED
from backend.scheduler import record
from backend.services.errors import Conflict

PORTION = 2_000
"""Rows of one transaction."""
PORTION_OF_BATCHES = 20
"""The same for raw batches, which are large."""
DELETED = "deleted"
"""Kind of the notice that says so; it belongs to no job, since that is gone."""


def remove(database: Database, job: models.Job) -> None:
    """Delete `job`, which must have ended; returns when it is gone. Jobs that it was the baseline of have none
    from then on.

    Raises Conflict where it has not ended, or where its files cannot be removed.
    """
    _check(job)
    recorded = [
        table for table in models.Base.metadata.tables.values() if "attempt_id" in table.primary_key.columns
    ]
    for attempt in job.attempts:
        for table in recorded:
            while database.writer.run(partial(_portion, table=table, attempt_id=attempt.id)):
                continue
    for attempt in job.attempts:
        _remove_directory(Path(attempt.directory))
    database.writer.run(lambda session: _remove_row(session, job.id))


def _check(job: models.Job) -> None:
    if job.state not in ENDED:
        raise Conflict(
            f"job {job.id} is {job.state}: only a job that has ended can be deleted. Cancel it first"
        )


def _portion(session: Session, table: Table, attempt_id: int) -> bool:
    """Delete the first rows of one attempt; answers whether there are more."""
    size = PORTION_OF_BATCHES if table is models.Batch.__table__ else PORTION
    mine = table.c.attempt_id == attempt_id
    key = [column for column in table.primary_key.columns if column is not table.c.attempt_id]
    beyond = session.execute(select(*key).where(mine).order_by(*key).offset(size).limit(1)).first()
    rows = delete(table).where(mine)
    session.execute(rows if beyond is None else rows.where(tuple_(*key) < tuple_(*beyond)))
    return beyond is not None


def _remove_directory(directory: Path) -> None:
    try:
        if directory.exists():
            shutil.rmtree(directory)
    except OSError as error:
        raise Conflict(
            f"{directory} cannot be removed: {error}. Remove it, then delete the job again"
        ) from None
    with suppress(OSError):  # the job's own folder, once its last attempt's is gone
        directory.parent.rmdir()


def _remove_row(session: Session, job_id: str) -> None:
    job = session.get(models.Job, job_id)
    if job is None:
        return  # somebody else was faster
    _check(job)
    for other in session.scalars(select(models.Job).where(models.Job.baseline_id == job_id)):
        other.baseline_id = None
        record.tell(session, other)
    session.execute(delete(models.Job).where(models.Job.id == job_id))  # the rest follows by its foreign keys
    notify(session, None, DELETED, {"job_id": job_id})
