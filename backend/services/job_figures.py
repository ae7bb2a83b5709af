"""Every job's newest figures, stored so that lists can be sorted by them.

A thread (`services/watch.py`) wakes when something was committed, reads the rows of the jobs that this concerns as the
list shows them, and hands them to the one writer. It reads notices to know what happened, and at the start looks for
what an earlier server's life left behind. Nothing is told: what a list shows is read from telemetry, and only its order
follows these.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.services.views import Views
from backend.services.watch import Watch, newest, news

PACE_S = 2.0
"""Commits that come within this time are looked at together."""
AT_ONCE = 100
"""Jobs of one transaction."""
BREATH_S = 0.5
"""Between two of them: what trains on this machine goes first where thousands of jobs are made up for."""
logger = logging.getLogger(__name__)


class JobFigures:
    """Keeps the stored figures current."""

    def __init__(self, database: Database, views: Views, turn: Callable[[], bool] = lambda: True) -> None:
        """`turn`: whether this server is the one that keeps them."""
        self._database = database
        self._views = views
        self._looking = threading.Lock()
        """One look at a time; never held by a request."""
        self._seen = 0
        """Newest notice that was looked at."""
        self._due: set[str] = set()
        self.watch = Watch(database, "job-figures", self.look, pace_s=PACE_S, turn=turn, begin=self._begin)

    def start(self) -> None:
        """Begin with what an earlier life left, or another server."""
        self.watch.start()

    def _begin(self) -> None:
        with self._looking, self._database.read() as session:
            self._seen = newest(session)
            self._due |= set(session.scalars(_stale()))

    def close(self) -> None:
        """Stop; the next server goes on."""
        self.watch.close()

    def look(self) -> None:
        """Store what follows from all that is committed."""
        with self._looking:
            with self._database.read() as session:
                self._due |= self._noticed(session)
            while self._due and not self.watch.closed.is_set():
                some = sorted(self._due)[:AT_ONCE]
                with self._database.read() as session:
                    rows = [row for job_id in some if (row := self._read(session, job_id)) is not None]
                if rows:
                    self._database.writer.run(partial(_write, rows=rows))
                self._due.difference_update(some)
                if self._due:
                    self.watch.closed.wait(BREATH_S)

    def _noticed(self, session: Session) -> set[str]:
        """Jobs of which something was committed since the last look."""
        found = news(session, self._seen)
        self._seen = found[-1].id if found else self._seen
        return {one.job_id for one in found if one.job_id is not None}

    def _read(self, session: Session, job_id: str) -> models.JobFigures | None:
        """None where they are stored already, or the job is gone."""
        job = session.get(models.Job, job_id)
        held = session.get(models.JobFigures, job_id)
        if job is None or (held is not None and held.revision == job.revision):
            return None
        try:
            shown = self._views.summary(session, job)
        except (LookupError, TypeError, ValueError):  # one job's rows must not stop the others
            logger.exception("the figures of job %s cannot be read", job_id)
            return None
        return models.JobFigures(
            job_id=job_id,
            revision=job.revision,
            step=shown.step,
            loss=shown.loss,
            test_accuracy=shown.test_accuracy,
            samples_per_s=shown.samples_per_s,
            speed_up=shown.speed_up,
        )


def _stale() -> Select[str]:
    """Jobs that have begun, and whose figures are not the newest."""
    figures = models.JobFigures
    other = or_(figures.job_id.is_(None), figures.revision != models.Job.revision)
    jobs = select(models.Job.id).outerjoin(figures, figures.job_id == models.Job.id)
    return jobs.where(models.Job.started_unix_ns.is_not(None), other)


def _write(session: Session, rows: Iterable[models.JobFigures]) -> None:
    for row in rows:
        if session.get(models.Job, row.job_id) is not None:  # it may be deleted by now
            session.merge(row)
