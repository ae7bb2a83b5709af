"""Races: submit, add members, show, list, cancel, delete. `services/racing.py` runs their jobs."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.access.rights import EVERYBODY, Caller
from backend.db import Database, models, notify, uuid7
from backend.figures import answers
from backend.figures.base import Labels
from backend.figures.compare import By
from backend.figures.race_learning import Learning
from backend.figures.race_throughput import Curves
from backend.lifecycle import ENDED
from backend.races.field import Cell, cells, conditions, job
from backend.races.problems import is_evaluated
from backend.races.spec import MemberSpec, RaceSpec
from backend.scheduler import record
from backend.schemas import races as schema
from backend.schemas.best import RaceBest
from backend.schemas.lists import RaceQuery
from backend.services import cursor as cursors
from backend.services import keys, names, provenance, race_report, stored_races
from backend.services.asker import Asker
from backend.services.best import Bests
from backend.services.crossings import crossings
from backend.services.curves import curves
from backend.services.drawing import Drawing
from backend.services.errors import Busy, Conflict, Forbidden
from backend.services.jobs import Jobs
from backend.services.known_tokens import check_stands
from backend.services.learning import learning
from backend.services.lists import told_by
from backend.services.plans import Planner
from backend.services.remember import Remembered
from backend.services.standings import Standings
from backend.services.stored import race_of
from backend.services.suggestions import suggestions
from engine.errors import UserError, refusals, refuse
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain
from engine.strategies import check_options

MOST_CELLS = 200
"""Members times conditions: each is planned before anything is stored."""
CAUSES_REMEMBERED = 1_024


class Races:
    """The races of one database."""

    def __init__(
        self,
        database: Database,
        planner: Planner,
        jobs: Jobs,
        drawing: Drawing,
        *,
        commit: str = "unknown",
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`commit`: of this program, for reports, as it was when the server started: what is checked out later does
        not run. `changed` wakes whoever runs races: there is a new one, or one that goes on."""
        self._database = database
        self._planner = planner
        self._jobs = jobs
        self._drawing = drawing
        self._commit = commit
        self._changed = changed
        self._standings = Standings()
        self._bests = Bests(self._standings)
        self._causes: Remembered[str | None] = Remembered(room=CAUSES_REMEMBERED)

    def submit(
        self, spec: RaceSpec, key: str | None, asker: Asker | None = None, *, caller: Caller = EVERYBODY
    ) -> tuple[schema.RaceView, bool]:
        """Store a race; answers it, and whether it is new. Members that cannot run are listed with the reason, and the
        others run. Repeated under its key it answers the same race. Raises UserError where nobody can run, and for a
        member's option that nobody has; Conflict for a key with another body, Left where the asker is gone before it is
        planned, and Unauthorized or Forbidden where the caller, whose its jobs are, too, may not any more by then."""
        body = hashlib.sha256(json.dumps(to_plain(spec), sort_keys=True).encode()).hexdigest()
        keys.check(key)
        names.check_race(spec)
        with self._database.read() as session:
            if held := _repeated(session, key, body, caller.name):
                return self.show(held.id), False
        outs = self._refused(spec, 0, asker)
        row = models.Race(
            id=uuid7(),
            name=spec.title[:200],
            owner=caller.name,
            spec=to_plain(spec),
            state=stored_races.RUNNING,
            idempotency_key=key,
            body_sha256=body,
            created_unix_ns=time.time_ns(),
        )

        def write(session: Session) -> tuple[str, bool]:
            check_stands(session, caller)
            if held := _repeated(session, key, body, caller.name):
                return held.id, False
            session.add(row)
            session.flush()
            _add_outs(session, row.id, outs)
            notify(session, None, stored_races.CHANGED, {"race_id": row.id})
            return row.id, True

        race_id, new = self._database.writer.run(write)
        if new:
            self._changed()
        return self.show(race_id), new

    def add(
        self,
        race_id: str,
        members: Sequence[MemberSpec],
        asker: Asker | None = None,
        *,
        caller: Caller = EVERYBODY,
    ) -> schema.RaceView:
        """Let more members race: they run all rounds; those that are over, alone. Raises NotFound, UserError for
        members that cannot race, Conflict for a race that was cancelled, Left where the asker is gone, Forbidden where
        the race is another's, and its jobs get that one's secrets, and as `submit` does where the caller may not any
        more."""
        with self._database.read() as session:
            row = stored_races.find(session, race_id)
            _check_open(row)  # before members are planned, which may take seconds
            before = race_of(row)
            if before.job.secrets and row.owner != caller.name:
                rule = (
                    f"race {race_id} names secrets ({', '.join(before.job.secrets)}), which are its owner's"
                )
                raise Forbidden(rule, "Ask its owner, or submit a race of your own")
        spec = replace(before, members=(*before.members, *members))
        names.check_members(spec.members, len(before.members))
        outs = self._refused(spec, len(before.members), asker)

        def write(session: Session) -> None:
            check_stands(session, caller)
            row = stored_races.find(session, race_id)
            _check_open(row)
            if row.spec != to_plain(before):
                raise Conflict(f"race {race_id} was changed meanwhile. Ask again")
            row.spec, row.state, row.ended_unix_ns = to_plain(spec), stored_races.RUNNING, None
            _add_outs(session, race_id, outs)
            notify(session, None, stored_races.CHANGED, {"race_id": race_id})

        self._database.writer.run(write)
        self._changed()
        return self.show(race_id)

    def cancel(self, race_id: str) -> schema.RaceSummary:
        """End it and the job that runs; what has ended stays. Ending it twice changes nothing. Answers its row in the
        list, which a race that cannot be read has, too. Raises NotFound, and Conflict for one that ended by itself."""

        def write(session: Session) -> None:
            row = stored_races.find(session, race_id)
            if row.state in (stored_races.FINISHED, stored_races.FAILED):
                raise Conflict(f"race {race_id} has {row.state}: there is nothing to cancel")
            if row.state == stored_races.RUNNING:
                row.state, row.ended_unix_ns = stored_races.CANCELLED, time.time_ns()
            for made in stored_races.jobs_of(session, race_id).values():
                if made.state not in ENDED:
                    record.cancel(session, made)

        self._database.writer.run(write)
        self._jobs.wake()
        with self._database.read() as session:
            row = stored_races.find(session, race_id)
            return stored_races.summary(session, row, stored_races.readable(row))

    def delete(self, race_id: str) -> None:
        """Forget a race that does not run; its jobs stay. Raises NotFound and Conflict."""

        def write(session: Session) -> None:
            row = stored_races.find(session, race_id)
            if row.state == stored_races.RUNNING:
                raise Conflict(f"race {race_id} runs. Cancel it first")
            session.delete(row)

        self._database.writer.run(write)

    def page(self, asked: RaceQuery) -> schema.RacePage:
        """Newest first. Raises UserError for a cursor that is none."""
        wanted = select(models.Race)
        if asked.text:
            wanted = wanted.where(told_by(models.Race, asked.text))
        with self._database.read() as session:
            rows, following = cursors.page(
                session, wanted, models.Race.id, limit=asked.limit, cursor=asked.cursor
            )
            items = [stored_races.summary(session, row, stored_races.readable(row)) for row in rows]
        return schema.RacePage(items=items, next_cursor=following)

    def show(self, race_id: str) -> schema.RaceView:
        """One race with its rankings. Raises NotFound."""
        with self._database.read() as session:
            row = stored_races.find(session, race_id)
            course = stored_races.course_of(session, row)
            spec, jobs = course.spec, course.jobs
            rankings = self._standings.rankings(session, course, self._why)
            summary = stored_races.summary(session, row, spec)
            largest = self._standings.largest(next(iter(jobs.values()), None))
        active = next(((key, job.id) for key, job in jobs.items() if job.state not in ENDED), None)
        newest = max(jobs, key=lambda key: (jobs[key].created_unix_ns, jobs[key].id), default=None)
        at = active[0] if active else newest
        left = stored_races.left_ns(course) if row.state == stored_races.RUNNING else None
        met = crossings(spec, rankings)
        return schema.RaceView(
            **dict(summary),
            spec=spec,
            rankings=rankings,
            crossings=[crossing.text for crossing in met],
            next=suggestions(spec, rankings, met, largest, ended=row.state != stored_races.RUNNING),
            notes=stored_races.notes(course, summary),
            round=1 if at is None else 1 + at[1],
            running_job=active[1] if active else None,
            left_s=None if left is None else left / 1e9,
        )

    def report(self, race_id: str) -> str:
        """The race as one HTML file. Raises NotFound."""
        race = self.show(race_id)
        best = self.best(race_id) if is_evaluated(race.spec.job) else None
        with self._database.read() as session:
            return race_report.html(race, provenance.of_race(session, race_id, self._commit), best)

    def best(self, race_id: str) -> RaceBest:
        """Which plan is best, by four criteria. Raises NotFound."""
        return self._best(race_id)[0]

    def learning(self, race_id: str, condition: int, by: By) -> Learning:
        """What its figure of learning draws. Raises NotFound, and UserError for a condition that it does not have."""
        best, job = self._best(race_id)
        return learning(best, condition, by, Labels(rehearsed=job.rehearsed, slowed=job.slowed))

    def _best(self, race_id: str) -> tuple[RaceBest, JobSpec]:
        with self._database.read() as session:
            row = stored_races.find(session, race_id)
            course = stored_races.course_of(session, row)
            return self._bests.of(session, race_id, row.name, course), course.spec.job

    def curves(self, race_id: str) -> Curves:
        """What its figure of throughput draws. Raises NotFound, and Conflict for a race with one condition."""
        with self._database.read() as session:
            row = stored_races.find(session, race_id)
            course = stored_races.course_of(session, row)
            spec, rankings = course.spec, self._standings.rankings(session, course, lambda fast, slow: None)
            goes_on = row.state == "running"
        return replace(curves(race_id, spec, rankings, crossings(spec, rankings)), goes_on=goes_on)

    def verdict_on(self, job_ids: Sequence[str]) -> str | None:
        """What the rounds of a race say where these jobs are runs of its members under one condition, one of each; None
        where they are not."""
        run = models.RaceRun
        with self._database.read() as session:
            rows = session.scalars(select(run).where(run.job_id.in_(job_ids))).all()
            fields = {(row.race_id, row.condition) for row in rows}
            if len(fields) != 1 or not len(job_ids) == len(rows) == len({row.member for row in rows}):
                return None
            ((race_id, condition),) = fields
            try:
                course = stored_races.course_of(session, stored_races.find(session, race_id))
            except UserError:
                return None  # another version stored it
            return self._standings.ranking_under(session, course, condition, lambda fast, slow: None).sentence

    def _refused(self, spec: RaceSpec, begin: int, asker: Asker | None) -> dict[Cell, str]:
        """Those of the cells of members from the place `begin` on that cannot run, with the reason. Raises UserError
        for options that nobody has, which are a mistake of who asks, and where no cell can run; and Left."""
        new = [cell for cell in cells(spec) if cell.member >= begin]
        if len(new) > MOST_CELLS:
            rule = f"members under {len(conditions(spec))} conditions are {len(new)} to plan; at most {MOST_CELLS}"
            remedy = "Race fewer members, rates, workers or batches at once"
            raise UserError("members", len(spec.members), rule, remedy)
        wrong = [
            _in_the_race(error, spec, cell, begin)
            for cell in new
            if cell.condition == 0
            for error in refusals(check_options, job(spec, cell))
        ]
        refuse({error.field: error for error in wrong}.values())  # what is the job's own every member meets
        found: dict[Cell, str] = {}
        first: UserError | None = None
        for cell in new:
            if asker is not None:
                asker.check()
            try:
                self._planner.plan(job(spec, cell), asker)
            except UserError as error:
                first = first or _in_the_race(error, spec, cell, begin)
                found[cell] = str(error)
        if first is not None and len(found) == len(new):
            raise first
        return found

    def _why(self, fast: str, slow: str) -> str | None:
        try:
            return self._causes.get((fast, slow), lambda: self._drawing.run(answers.cause_of, fast, slow))
        except Busy:  # whoever asks again is told
            return None


def _in_the_race(error: UserError, spec: RaceSpec, cell: Cell, begin: int) -> UserError:
    """A refusal of a cell's job, at the field of the race that it is about; members count from the place `begin`."""
    member = f"members.{cell.member - begin}"
    if error.field.startswith("strategy."):  # a member has the strategy's name and options by themselves
        own = error.field.removeprefix("strategy.")
        return error.at(f"{member}.{'strategy' if own == 'name' else own}")
    if error.field.startswith("overrides") and spec.members[cell.member].overrides is not None:
        return error.within(member)
    return error.within("job")


def _repeated(session: Session, key: str | None, body: str, owner: str | None) -> models.Race | None:
    """The race that this key made before; raises Conflict where its body was another, or somebody else asked."""
    if key is None:
        return None
    held = session.scalars(select(models.Race).where(models.Race.idempotency_key == key)).first()
    if held is not None:
        keys.check_owner(key, held.owner, owner)
    if held is not None and held.body_sha256 != body:
        rule = f"was used for another body (race {held.id})"
        error = UserError(keys.FIELD, key, rule, "Use a new key for another race")
        raise Conflict(str(error), [error])
    return held


def _check_open(row: models.Race) -> None:
    if row.state == stored_races.CANCELLED:
        raise Conflict(f"race {row.id} was cancelled. Submit it again with all members")


def _add_outs(session: Session, race_id: str, outs: dict[Cell, str]) -> None:
    session.add_all(
        models.RaceOut(race_id=race_id, member=cell.member, condition=cell.condition, reason=reason)
        for cell, reason in outs.items()
    )
