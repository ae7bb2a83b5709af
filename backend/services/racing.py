"""Races go on: one job after another, whatever happens in between.

A thread (`services/watch.py`) wakes when a state was committed, and looks at every race that runs: where no job of it
is under way, it submits the next one. All that it knows is in the database, and a job's submission is repeated under
one key, so that a server that died in between goes on without a second job. Of several servers one does it, and another
one where that is gone. One race runs at a time: its jobs compete for the machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.lifecycle import ENDED, State
from backend.races.field import Cell, conditions, job
from backend.races.order import Run, following, key_of
from backend.races.spec import RaceSpec
from backend.scheduler import outbox
from backend.services.errors import Conflict
from backend.services.jobs import Jobs
from backend.services.remarks import ended_so
from backend.services.removal import DELETED
from backend.services.stored import race_of
from backend.services.stored_races import CHANGED, FAILED, FINISHED, RUNNING
from backend.services.watch import Watch
from engine.errors import UserError
from engine.plan.plan import MessageCost
from engine.plan.serde import from_plain

logger = logging.getLogger(__name__)


class Racing:
    """Submits the jobs of races."""

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        turn: Callable[[], bool] = lambda: True,
        check: Callable[[Session], None] = lambda _session: None,
    ) -> None:
        """`turn`: whether this server is the one that does it. `check(session)` raises, inside of a transaction, where
        another one has taken it over."""
        self._database = database
        self._check = check
        self._jobs = jobs
        self._unreadable: set[str] = set()
        """Races of other versions, each named in the log once."""
        # What its job records comes many times a second, and does not let a race go on.
        self._watch = Watch(database, "racing", self._look, kinds=("job", DELETED, CHANGED), turn=turn)

    def start(self) -> None:
        """Begin with the races that an earlier life left."""
        self._watch.start()

    def wake(self) -> None:
        """There is a new race, or something of one has changed. From any thread, after the commit."""
        self._watch.wake()

    def close(self) -> None:
        """Stop; the next server goes on."""
        self._watch.close()

    def _look(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Do the one next thing; whether there was one."""
        with self._database.read() as session:
            going = self._first(session)
            if going is None:
                return False
            race_id, spec, owner = going
            runs = session.execute(
                select(models.RaceRun, models.Job)
                .outerjoin(models.Job, models.Job.id == models.RaceRun.job_id)
                .where(models.RaceRun.race_id == race_id)
            ).all()
            outs = {
                Cell(out.member, out.condition)
                for out in session.scalars(select(models.RaceOut).where(models.RaceOut.race_id == race_id))
            }
        for run, made in runs:
            if made is None:
                continue
            if made.state not in ENDED:
                return False  # its end wakes us
            cell = Cell(run.member, run.condition)
            if made.state != State.SUCCEEDED and cell not in outs:
                self._leave_out(race_id, cell, ended_so(run.round, made.state, made.message))
                return True
        done = {Run(run.round, Cell(run.member, run.condition)) for run, _ in runs}
        chosen = following(len(spec.members), len(conditions(spec)), spec.rounds, done, outs)
        if chosen is None:
            self._finish(race_id, spec)
        else:
            of_cell = {(run.member, run.condition): made.id for run, made in runs if made is not None}
            self._run(race_id, spec, chosen, of_cell.values(), owner)
        return True

    def _first(self, session: Session) -> tuple[str, RaceSpec, str | None] | None:
        """The oldest race that runs and that this version can read, and whose it is: what another one stored stays as
        it is, until somebody cancels it or that version goes on with it."""
        rows = select(models.Race).where(models.Race.state == RUNNING).order_by(models.Race.id)
        for row in session.scalars(rows):
            try:
                return row.id, race_of(row), row.owner
            except UserError as error:
                if row.id not in self._unreadable:
                    self._unreadable.add(row.id)
                    logger.warning("race %s does not go on: %s", row.id, error)
        return None

    def _run(
        self, race_id: str, spec: RaceSpec, run: Run, earlier: Collection[str], owner: str | None
    ) -> None:
        """`earlier`: a job of each cell that has run before. `owner`: whose the race is."""
        cell = run.cell
        with self._database.read() as session:
            message = _message(session, earlier)
        try:
            key = key_of(race_id, run)
            check = partial(_check_runs, race_id=race_id)
            made, _ = self._jobs.store(
                job(spec, cell, run.round), key, message=message, owner=owner, check=check
            )
        except _OverError:
            return
        except (UserError, Conflict) as error:
            # Its files, or this machine's devices, are not what they were; or somebody has its key.
            self._leave_out(race_id, cell, str(error))
            return

        def write(session: Session) -> bool:
            self._check(session)
            race = session.get(models.Race, race_id)
            if race is None or race.state != RUNNING:
                return False
            session.add(
                models.RaceRun(
                    race_id=race_id,
                    member=cell.member,
                    condition=cell.condition,
                    round=run.round,
                    job_id=made.id,
                    made_unix_ns=session.get_one(models.Job, made.id).created_unix_ns,
                )
            )
            return True

        if not self._database.writer.run(write):  # it was cancelled meanwhile
            self._jobs.cancel(made.id)

    def _leave_out(self, race_id: str, cell: Cell, reason: str) -> None:
        def write(session: Session) -> None:
            self._check(session)
            key = (race_id, cell.member, cell.condition)
            if session.get(models.Race, race_id) is not None and session.get(models.RaceOut, key) is None:
                session.add(
                    models.RaceOut(
                        race_id=race_id, member=cell.member, condition=cell.condition, reason=reason
                    )
                )

        self._database.writer.run(write)

    def _finish(self, race_id: str, spec: RaceSpec) -> None:
        def write(session: Session) -> None:
            self._check(session)
            race = session.get(models.Race, race_id)
            # Members that were added meanwhile still have to run.
            if race is not None and race.state == RUNNING and len(race.spec["members"]) == len(spec.members):
                race.state = FINISHED if _measured(session, race_id) else FAILED
                race.ended_unix_ns = time.time_ns()
                outbox.race_ended(session, race)

        self._database.writer.run(write)


class _OverError(Exception):
    """A race does not run any more."""


def _check_runs(session: Session, race_id: str) -> None:
    """Raises _OverError. A job of a race that has ended would be given secrets of an owner who may be removed by now:
    while a race runs, who names secrets is not."""
    race = session.get(models.Race, race_id)
    if race is None or race.state != RUNNING:
        raise _OverError


def _message(session: Session, jobs: Collection[str]) -> MessageCost | None:
    """What a message cost when the first of these jobs was planned whose sizes were left to us: measured anew by a
    server that has restarted meanwhile, it might give rounds, or members, other sizes."""
    said = models.Job.plan["message"].as_json()  # a plan may be too large to load
    ordered = select(said).where(models.Job.id.in_(jobs)).order_by(models.Job.created_unix_ns, models.Job.id)
    for found in session.scalars(ordered):
        if isinstance(found, dict):
            with suppress(UserError):  # another version stored it
                return from_plain(MessageCost, found)
    return None


def _measured(session: Session, race_id: str) -> bool:
    """Whether some job of a race has succeeded, or may have: of those that somebody deleted nobody knows."""
    run = models.RaceRun
    rows = (
        select(run.round)
        .outerjoin(models.Job, models.Job.id == run.job_id)
        .where(run.race_id == race_id, or_(run.job_id.is_(None), models.Job.state == State.SUCCEEDED))
    )
    return session.execute(rows.limit(1)).first() is not None
