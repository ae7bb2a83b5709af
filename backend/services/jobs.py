"""Jobs: submit, clone, show, cancel, delete."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from sqlalchemy import delete, select
from sqlalchemy.orm import Session, selectinload

from backend.access.rights import EVERYBODY, Caller
from backend.db import Database, models, uuid7
from backend.executors.attempt_files import FilesOf
from backend.figures.facts import known
from backend.lifecycle import InvalidTransitionError, State
from backend.scheduler import durations, learned, preempt, record
from backend.schemas import jobs as schema
from backend.schemas.plans import PlanView
from backend.services import keys, names
from backend.services.asker import Asker
from backend.services.errors import Conflict, NotFound
from backend.services.known_tokens import check_stands
from backend.services.merge import merged
from backend.services.plans import Planned, Planner, view
from backend.services.removal import remove
from backend.services.start_check import check_start, check_start_there
from backend.services.stored import spec_of
from backend.services.views import Views
from engine.errors import UnknownNameError, UserError
from engine.plan.documents import dump_yaml
from engine.plan.job import JobSpec
from engine.plan.plan import MessageCost
from engine.plan.serde import from_plain, only_set, to_plain

SpecForm = Literal["yaml", "json"]
NAME_LENGTH = 200


def find(session: Session, job_id: str) -> models.Job:
    """The job; raises NotFound."""
    job = session.get(models.Job, job_id)
    if job is None:
        raise NotFound(f"id = {job_id!r}: no such job. GET /api/v1/jobs lists them")
    return job


class Jobs:
    """The jobs of one database."""

    def __init__(
        self,
        database: Database,
        planner: Planner,
        views: Views,
        files: FilesOf,
        *,
        changed: Callable[[], None] = lambda: None,
        secrets: Callable[[str | None, Sequence[str]], None] = lambda owner, names: None,
    ) -> None:
        """`files`: of attempts. `changed` wakes the scheduler: there is a new job, or one to end. `secrets` raises
        UserError for names of which a user has no secret."""
        self._secrets = secrets
        self._database = database
        self._planner = planner
        self._views = views
        self._files = files
        self._changed = changed

    def preview(self, spec: JobSpec, asker: Asker | None = None) -> PlanView:
        """What submitting would do, without doing it. Raises as `submit` does. The model is described also where the
        asker leaves: a page leaves with every letter that is typed, and comes back for the same model."""
        names.check_job(spec)
        with self._database.read() as session:
            _check_baseline(session, spec.baseline)
        planned = self._planner.plan(spec, asker, described_anyway=True)
        check_start(self._database, planned, self._files)
        with self._database.read() as session:
            takes_ns = learned.expected_ns(session, to_plain(planned.spec))
        return view(planned).model_copy(update={"expected_s": takes_ns and takes_ns / 1e9})

    def submit(
        self, spec: JobSpec, key: str | None, asker: Asker | None = None, *, caller: Caller = EVERYBODY
    ) -> tuple[schema.Job, bool]:
        """Store a job and its plan; answers the job, and whether it is new. It is the caller's.

        A submission repeated under its idempotency key answers the job that it made the first time.
        Raises UserError for a specification that cannot run, Conflict for a key with another body, Left where the
        asker is gone before it is planned, and Unauthorized or Forbidden where the caller may not any more by then.
        """
        keys.check(key)
        names.check_job(spec)
        self._secrets(caller.name, spec.secrets)
        return self.store(spec, key, asker, owner=caller.name, check=partial(check_stands, caller=caller))

    def store(
        self,
        spec: JobSpec,
        key: str | None,
        asker: Asker | None = None,
        message: MessageCost | None = None,
        *,
        owner: str | None = None,
        check: Callable[[Session], None] = lambda _session: None,
    ) -> tuple[schema.Job, bool]:
        """`submit`, also under a key that no client may use, and a name that a race stored by an older server gave.
        `owner`: the user whose it is. `message`: what a message costs, where it is not to be measured anew.
        `check(session)` raises, inside of the transaction that stores it, where that must not be any more."""
        body = hashlib.sha256(json.dumps(to_plain(spec), sort_keys=True).encode()).hexdigest()
        with self._database.read() as session:
            if held := _repeated(session, key, body, owner):
                return self._views.whole(session, held), False
            _check_baseline(session, spec.baseline)
        planned = self._planner.plan(spec, asker, message)
        check_start(self._database, planned, self._files)
        row = _new_row(planned, key, body, owner)

        def write(session: Session) -> tuple[str, bool]:
            check(session)
            if held := _repeated(session, key, body, owner):
                return held.id, False
            _check_baseline(session, spec.baseline)
            check_start_there(session, spec.checkpoint.start)
            _check_project(session, spec.project)  # it may have been removed while the job was planned
            record.submitted(session, row)
            return row.id, True

        job_id, new = self._database.writer.run(write)
        if new:
            self.wake()
        return self.show(job_id), new

    def clone(
        self,
        job_id: str,
        changes: dict[str, Any],
        key: str | None,
        asker: Asker | None = None,
        *,
        caller: Caller = EVERYBODY,
    ) -> tuple[schema.Job, bool]:
        """Submit a job's specification once more, with `changes` (a merge patch of it). Its name says so, unless
        they give another, and which strategy it has where they change that: the old one's may be in the name. Its
        baseline stays where that still exists. Answers and raises as `submit` does, and NotFound."""
        with self._database.read() as session:
            job = find(session, job_id)
            before = {**job.spec, "baseline": job.baseline_id}
        spec = from_plain(JobSpec, merged(before, changes))
        if "name" not in changes:
            spec = replace(spec, name=_again(spec, before))
        return self.submit(spec, key, asker, caller=caller)

    def delete(self, job_id: str) -> schema.Deletion | None:
        """Remove a job that has ended, with everything that was recorded of it; what is left of it after a while, None
        when it is gone. Raises NotFound and Conflict."""
        with self._database.read() as session:
            job = session.get(
                models.Job, find(session, job_id).id, options=[selectinload(models.Job.attempts)]
            )
            assert job is not None
        return remove(self._database, job, self._files)

    def show(self, job_id: str) -> schema.Job:
        """One job, whole. Raises NotFound."""
        with self._database.read() as session:
            return self._views.whole(session, find(session, job_id))

    def plan(self, job_id: str) -> PlanView:
        """The job's plan. Raises NotFound."""
        with self._database.read() as session:
            return self._views.plan(find(session, job_id))

    def specification(self, job_id: str, form: SpecForm, *, whole: bool) -> str:
        """What the job was asked to be, as text that can be submitted again: only what was set, or with every default.
        Raises NotFound, and UserError for what another version stored and this one cannot read."""
        with self._database.read() as session:
            spec = spec_of(find(session, job_id))
        plain = to_plain(spec) if whole else only_set(spec)
        return dump_yaml(plain) if form == "yaml" else json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

    def choose_baseline(self, job_id: str, baseline_id: str | None) -> str | None:
        """Measure the job against another one from now on; what was measured against the former goes. Answers the
        former. Raises NotFound, and UserError for a baseline that is no job, or the job itself."""
        if baseline_id == job_id:
            raise UserError("baseline", job_id, "a job is not its own baseline", "Give the id of another job")

        def write(session: Session) -> str | None:
            job = find(session, job_id)
            _check_baseline(session, baseline_id)
            former = job.baseline_id
            if former == baseline_id:
                return former
            attempts = select(models.Attempt.id).where(models.Attempt.job_id == job_id)
            session.execute(delete(models.SpeedUpRow).where(models.SpeedUpRow.attempt_id.in_(attempts)))
            job.baseline_id = baseline_id
            record.tell(session, job)
            return former

        return self._database.writer.run(write)

    def cancel(self, job_id: str) -> schema.Job:
        """Ask for the job's end; nothing changes where it is ending already. Raises NotFound, and Conflict
        for a job that has succeeded or failed."""

        def write(session: Session) -> None:
            try:
                record.cancel(session, find(session, job_id))
            except InvalidTransitionError as error:
                raise Conflict(f"job {job_id} cannot be cancelled: {error}") from None

        self._database.writer.run(write)
        self.wake()
        return self.show(job_id)

    def preempt(self, job_id: str) -> schema.Job:
        """Let a job that runs make room for others: it ends its attempt with a checkpoint and queues again; nothing
        changes where it is about to. Raises NotFound, Conflict for one that cannot, and UserError for what another
        version stored and this one cannot read."""

        def write(session: Session) -> None:
            job = find(session, job_id)
            why_not = preempt.refusal(State(job.state), spec_of(job).checkpoint)
            if why_not is not None:
                raise Conflict(f"job {job_id} cannot be preempted: {why_not}")
            record.preempt(session, job)

        self._database.writer.run(write)
        self.wake()
        return self.show(job_id)

    def wake(self) -> None:
        """Wake the scheduler: there is a new job, or one to end. Call it after the commit."""
        self._changed()


def _again(spec: JobSpec, before: dict[str, Any]) -> str:
    """What a clone is called: `digits (again)`, or `digits (again, under ddp)`."""
    other = spec.strategy.name != known(before, "strategy.name", str)
    end = f" (again, under {spec.strategy.name})" if other else " (again)"
    return f"{spec.name[: NAME_LENGTH - len(end)]}{end}"


def _new_row(planned: Planned, key: str | None, body: str, owner: str | None) -> models.Job:
    spec = planned.spec
    return models.Job(
        id=uuid7(),
        name=spec.name,
        owner=owner,
        spec=(plain := to_plain(spec)),
        digest=durations.digest(plain),
        plan=to_plain(planned.plan),
        description=planned.description.to_dict(),
        priority=spec.priority,
        project=spec.project,
        baseline_id=spec.baseline,
        idempotency_key=key,
        body_sha256=body,
        created_unix_ns=time.time_ns(),
        revision=0,
    )


def _repeated(session: Session, key: str | None, body: str, owner: str | None) -> models.Job | None:
    """The job that this key made before; raises Conflict where its body was another, or somebody else asked:
    who asks now would wait for a job that is not theirs."""
    if key is None:
        return None
    held = session.scalars(select(models.Job).where(models.Job.idempotency_key == key)).first()
    if held is not None:
        keys.check_owner(key, held.owner, owner)
    if held is not None and held.body_sha256 != body:
        error = UserError(
            keys.FIELD,
            key,
            f"was used for another body (job {held.id})",
            "Use a new key for another job",
        )
        raise Conflict(str(error), [error])
    return held


def _check_project(session: Session, project: str | None) -> None:
    if project is not None and session.get(models.Project, project) is None:
        known = session.scalars(select(models.Project.name).order_by(models.Project.name)).all()
        raise UnknownNameError("project", project, "project", known)


def _check_baseline(session: Session, baseline_id: str | None) -> None:
    if baseline_id is not None and session.get(models.Job, baseline_id) is None:
        raise UserError("baseline", baseline_id, "no such job", "Give the id of a job, or leave it out")
