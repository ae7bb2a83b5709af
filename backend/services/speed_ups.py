"""Speed-ups over time: measured after the commits that they follow from, and stored.

A thread (`services/watch.py`) wakes when telemetry or a state was committed, measures the jobs that this concerns (the
job itself and those whose baseline it is), at most every EVERY_S while something runs and at once when both have ended,
and hands the row to the one writer. It reads notices to know what happened, and at the start looks for what an earlier
server's life left unmeasured. A measurement that finds what is stored already tells nobody, so that two jobs with each
other as baseline come to rest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sqlalchemy import Select, delete, exists, or_, select
from sqlalchemy.orm import Session, aliased

from backend.db import Database, DatabaseUnavailableError, WriterError, notify
from backend.db.models import Attempt, Job, SpeedUpRow
from backend.figures import compared
from backend.figures.compared import Compared
from backend.figures.source import Source
from backend.figures.speed import measure
from backend.lifecycle import ENDED
from backend.services.stored import spec_of
from backend.services.watch import Watch, newest, news
from engine.errors import UserError
from engine.telemetry.comparison import SpeedUp
from engine.telemetry.definitions import MIN_TIMES, WARM_UP_STEPS

EVERY_S = 5.0
"""A job that runs is measured at most so often."""
PACE_S = 0.5
"""Commits that come within this time are looked at together."""
NEAREST_NS = 5 * 10**9
"""Kept measurements are at least so far apart on the attempt's clock,"""
NEAREST_SHARE = 1 / 200
"""and at least this share of the time since the attempt began: however long a job runs, it keeps about a
thousand."""
REBUILT = 20
"""So many measurements are made up for of a job that has run for a while against no baseline, or another one."""
KIND = "speed-up"
"""Of the notice that says so."""
AT_ONCE = 1_000
"""Jobs in one query."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """What one look at a job found, with what it saw: written only where that still stands."""

    job_id: str
    attempt: int
    rows: Sequence[Compared]
    """To store, by step."""
    dropped: Sequence[int]
    """Steps whose rows go."""
    revision: int
    baseline_revision: int


class SpeedUps:
    """Keeps the stored speed-ups current."""

    def __init__(self, database: Database, turn: Callable[[], bool] = lambda: True) -> None:
        """`turn`: whether this server is the one that measures."""
        self._database = database
        self._looking = threading.Lock()
        """One look at a time; never held by a request."""
        self._seen = 0
        """Newest notice that was looked at."""
        self._due: set[str] = set()
        """Jobs to measure as soon as their time has come."""
        self._measured: dict[str, float] = {}
        """When each was last, on the monotonic clock."""
        self.watch = Watch(
            database,
            "speed-ups",
            partial(self.look, at_once=False),
            pace_s=PACE_S,
            turn=turn,
            begin=self._begin,
        )

    def start(self) -> None:
        """Begin with what an earlier life, or another server, left unmeasured."""
        self.watch.start()

    def _begin(self) -> None:
        with self._looking, self._database.read() as session:
            self._seen = newest(session)
            self._due |= set(session.scalars(_stale()))

    def close(self) -> None:
        """Stop; the next server goes on."""
        self.watch.close()

    def look(self, *, at_once: bool = True) -> float | None:
        """Measure what follows from all that is committed: everything `at_once`, or what is due by now. In how many
        seconds something else is; None where nothing is. Raises what the database raises; the job stays due."""
        with self._looking:
            with self._database.read() as session:
                self._due |= self._concerned(session)
                state = _states(session, self._due)
            self._due &= state.keys()
            now = time.monotonic()
            at = {
                job_id: now if ended or at_once else self._measured.get(job_id, -np.inf) + EVERY_S
                for job_id, ended in state.items()
            }
            # Baselines are older than who is compared with them, as a rule, and ids sort by age.
            for job_id in sorted(job_id for job_id, time_ in at.items() if time_ <= now):
                if self.watch.closed.is_set():
                    return None
                self._due.discard(job_id)
                self._measured[job_id] = now
                try:
                    self._measure(job_id)
                except (DatabaseUnavailableError, WriterError):  # the database's trouble, not the job's
                    self._due.add(job_id)
                    raise
            for job_id in [job_id for job_id, then in self._measured.items() if then + EVERY_S < now]:
                del self._measured[job_id]
            return max(0.0, min(at[job_id] for job_id in self._due) - now) if self._due else None

    def _concerned(self, session: Session) -> set[str]:
        """Jobs with a baseline of which, or of whose baseline, something was committed since the last look."""
        own: set[str] = set()
        any_: set[str] = set()
        for number, job_id, kind in news(session, self._seen):
            self._seen = max(self._seen, number)
            if job_id is None:
                continue
            any_.add(job_id)
            if kind != KIND:
                own.add(job_id)
        has = select(Job.id).where(Job.baseline_id.is_not(None), Job.started_unix_ns.is_not(None))
        return set(session.scalars(has.where(or_(Job.id.in_(own), Job.baseline_id.in_(any_)))))

    def _measure(self, job_id: str) -> None:
        try:
            with self._database.read() as session:
                found = _look_at(session, job_id)
            if found is not None:
                self._database.writer.run(partial(_write, found=found))
        except (LookupError, TypeError, ValueError):  # one job's rows must not stop the others
            logger.exception("the speed-up of job %s cannot be measured", job_id)


def of(
    session: Session, job: Job, baseline_id: str | None = None, attempt: Attempt | None = None
) -> Compared | None:
    """What is shown of the job, or of that attempt, against its own baseline or another one; None without one. A
    baseline that another version stored, and this one cannot read, is refused with that reason."""
    chosen = baseline_id or job.baseline_id
    source = Source(session, job.id, attempt.number if attempt else None)
    baseline = session.get(Job, chosen) if chosen else None
    if baseline is None:
        return compared.shown(source)
    return _unreadable(source, baseline) or compared.shown(source, baseline.id)


def _unreadable(source: Source, baseline: Job) -> Compared | None:
    try:
        spec_of(baseline)
    except UserError as error:
        there = source.other(baseline.id)
        found = compared.compare(source, there)
        refused = SpeedUp(value=None, scaling="strong", refused=(f"the baseline: {error}",))
        return replace(found, result=refused)
    return None


def _stale() -> Select[str]:
    """Jobs whose newest measurement does not rest on all that is known of them and of their baselines."""
    baseline = aliased(Job)
    current = exists().where(
        Attempt.job_id == Job.id,
        SpeedUpRow.attempt_id == Attempt.id,
        SpeedUpRow.baseline_id == Job.baseline_id,
        SpeedUpRow.revision == Job.revision,
        SpeedUpRow.baseline_revision == baseline.revision,
    )
    jobs = select(Job.id).join(baseline, baseline.id == Job.baseline_id)
    return jobs.where(Job.started_unix_ns.is_not(None), ~current)


def _states(session: Session, job_ids: set[str]) -> dict[str, bool]:
    """Of those that have a baseline: whether both have ended."""
    baseline = aliased(Job)
    query = select(Job.id, Job.state, baseline.state).join(baseline, baseline.id == Job.baseline_id)
    ids = sorted(job_ids)
    found: dict[str, bool] = {}
    for start in range(0, len(ids), AT_ONCE):
        rows = session.execute(query.where(Job.id.in_(ids[start : start + AT_ONCE])))
        found |= {job_id: {mine, other} <= ENDED for job_id, mine, other in rows}
    return found


def _look_at(session: Session, job_id: str) -> _Measured | None:
    """None where there is nothing to store."""
    job = session.get(Job, job_id)
    baseline = session.get(Job, job.baseline_id) if job and job.baseline_id else None
    if job is None or baseline is None:
        return None
    source = Source(session, job_id)
    if source.job.attempt is None:
        return None
    held = source.speed_ups()
    found = _unreadable(source, baseline) or compared.compare(source, source.other(baseline.id))
    rows = [found]
    dropped: list[int] = []
    if held and compared.read(held[-1], source).measured == found.measured:
        rows = []
    elif all(row.value is None for row in held):  # until now there was none
        dropped = [row.step for row in held]
        rows = [*_earlier(source, baseline.id, found), found]
    elif _moves(held, found):
        dropped = [held[-1].step]
    return _Measured(
        job_id=job_id,
        attempt=source.attempt,
        rows=rows,
        dropped=dropped,
        revision=job.revision,
        baseline_revision=baseline.revision,
    )


def _moves(held: Sequence[SpeedUpRow], found: Compared) -> bool:
    """Whether the newest row goes on with the job, in place of a new one: it is near the one before, or says nothing
    but that there is no value."""
    if held[-1].value is None:
        return True
    near = max(NEAREST_NS, found.at_ns * NEAREST_SHARE)
    return len(held) > 1 and held[-1].at_ns - held[-2].at_ns < near


def _earlier(source: Source, baseline_id: str, found: Compared) -> list[Compared]:
    """Measurements over windows that ended before, of a job that has run for a while; none where there is no value."""
    if found.result.value is None:
        return []
    first, last = WARM_UP_STEPS + MIN_TIMES, found.steps[1]
    steps = np.linspace(first, last, REBUILT).astype(int)
    if len(set(steps.tolist())) < REBUILT:
        return []
    baseline = source.other(baseline_id)
    theirs = measure(baseline)
    return [compared.compare(source, baseline, int(step), theirs) for step in steps[:-1]]


def _write(session: Session, found: _Measured) -> None:
    """The rows and a notice, in the writer's transaction; nothing where the baseline is another one by now."""
    job = session.get(Job, found.job_id)
    if job is None or session.get(Attempt, found.attempt) is None:
        return
    mine = SpeedUpRow.attempt_id == found.attempt
    if not found.rows:  # nothing new: it rests on all that was known when it was looked at
        newest = select(SpeedUpRow).where(mine).order_by(SpeedUpRow.step.desc()).limit(1)
        if (held := session.scalars(newest).first()) is not None:
            held.revision, held.baseline_revision = found.revision, found.baseline_revision
        return
    if job.baseline_id != found.rows[-1].baseline_id:
        return
    gone = [*found.dropped, *(row.steps[1] for row in found.rows)]
    session.execute(delete(SpeedUpRow).where(mine, SpeedUpRow.step.in_(gone)))
    # Where more was committed since the look, this is not current: another look is under way.
    current = job.revision == found.revision
    job.revision += 1
    for row in found.rows:
        revision = job.revision if current else found.revision
        session.add(_row(found.attempt, row, revision, found.baseline_revision))
    value = found.rows[-1].result.value
    notify(session, job.id, KIND, {"job_id": job.id, "revision": job.revision, "value": value})


def _row(attempt: int, found: Compared, revision: int, baseline_revision: int) -> SpeedUpRow:
    low, high = found.result.interval or (None, None)
    return SpeedUpRow(
        attempt_id=attempt,
        step=found.steps[1],
        first_step=found.steps[0],
        at_ns=found.at_ns,
        measured_unix_ns=time.time_ns(),
        baseline_id=found.baseline_id,
        baseline_name=found.baseline_name,
        baseline_workers=found.baseline_workers,
        baseline_attempt=found.baseline_attempt,
        baseline_first_step=found.baseline_steps[0],
        baseline_last_step=found.baseline_steps[1],
        samples_per_s=found.samples_per_s,
        baseline_samples_per_s=found.baseline_samples_per_s,
        value=found.result.value,
        low=low,
        high=high,
        scaling=found.result.scaling,
        refused=list(found.result.refused),
        caveats=list(found.result.caveats),
        final=found.final,
        revision=revision,
        baseline_revision=baseline_revision,
    )
