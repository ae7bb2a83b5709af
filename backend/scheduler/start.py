"""Starting a job that was placed: a new attempt in the database, its directory, its supervisor.

In this order, so that a server that dies in between leaves something to find: first the attempt's row (its
job is placed and its devices are taken), then the launch, then the supervisor's identity.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, Job, Project
from backend.executors.base import Ended, Executor, Ingest, LaunchError
from backend.ingest import new_token, token_sha256
from backend.lifecycle import Reason, State
from backend.scheduler import changes, quota, record, snapshot, usage
from backend.scheduler.alone import Alone
from backend.scheduler.instructions import Start
from backend.scheduler.membership import LeaseLostError
from backend.scheduler.started_with import directories, start_of
from engine.errors import UserError
from engine.launch import CHECKPOINTS, prepare
from engine.plan.cluster import parties
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain

OpenSecrets = Callable[[str | None, Sequence[str]], Mapping[str, str]]
"""What a user's secrets of these names are; raises where one cannot be had."""
logger = logging.getLogger(__name__)


def no_secrets(owner: str | None, names: Sequence[str]) -> Mapping[str, str]:
    """Of a scheduler that nobody gave any. Raises LaunchError for a job that wants some."""
    if names:
        raise LaunchError(f"this scheduler has no secrets, and the job wants {', '.join(names)}")
    return {}


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """What the job's row holds, as the engine's own objects."""

    job: JobSpec
    plan: Plan | Wrapper
    model: ModelDescription
    owner: str | None


class Starter:
    """Carries out `Start`."""

    def __init__(
        self,
        database: Database,
        executor: Executor,
        membership: Alone,
        data_dir: Path,
        url: str,
        secrets: OpenSecrets = no_secrets,
    ) -> None:
        self._database = database
        self._membership = membership
        self._executor = executor
        self._data_dir = data_dir
        self._url = url
        self._secrets = secrets

    def start(self, granted: Start) -> None:
        """Start the job on its devices. A job that cannot be started fails with the reason."""
        writer = self._database.writer
        try:
            with self._database.read() as session:
                stored = _stored(session.get_one(Job, granted.job_id))
                begins = stored.job.checkpoint.start
                others = directories(session, begins.job) if begins else []
        except UserError as error:  # written by another version of this program
            writer.run(partial(changes.unreadable, job_id=granted.job_id, message=str(error)))
            return
        token = new_token()
        epoch = time.time_ns()
        attempt = writer.run(lambda session: self._add_attempt(session, granted, stored, token, epoch))
        if attempt is None:
            return
        try:
            directory = Path(attempt.directory)
            launch = prepare(
                stored.job,
                stored.plan,
                stored.model,
                directory,
                attempt=attempt.id,
                epoch_unix_ns=epoch,
                devices=tuple(device.torch_device for device in granted.devices),
                checkpoints=directory.parent / CHECKPOINTS,
                start=start_of(begins, others, self._executor.files) if begins else None,
            )
            ingest = Ingest(url=self._url, attempt=attempt.id, token=token)
            handle = self._executor.launch(launch, ingest, self._secrets(stored.owner, stored.job.secrets))
        except (
            Exception
        ) as error:  # whatever it is: a job that stayed `placing` would be placed again and again
            self._close(attempt.id, Path(attempt.directory), error)
        else:
            self._write(attempt.id, partial(changes.launched, attempt_id=attempt.id, handle=handle))

    def _write(self, attempt_id: int, write: Callable[[Session], None]) -> None:
        """Write down what became of the launch, unless another server has taken the attempt meanwhile: that one has
        found what was launched, or made sure that nothing is (`Executor.find`)."""
        try:
            self._membership.run_for(attempt_id, write)
        except LeaseLostError as error:
            logger.warning("the launch of attempt %d is another server's: %s", attempt_id, error)

    def _close(self, attempt_id: int, directory: Path, error: Exception) -> None:
        """The attempt was not launched: end it, and its job, with the reason."""
        known = isinstance(error, LaunchError)
        logger.error("attempt %d was not launched: %s", attempt_id, error, exc_info=not known)
        if not known and (handle := self._executor.find(directory)) is not None:
            self._executor.stop(handle, force=True)
        end = Ended(
            status="failed",
            reason=Reason.LAUNCH_FAILED,
            message=str(error) if known else f"{type(error).__name__}: {error}",
            ended_unix_ns=time.time_ns(),
        )
        self._write(attempt_id, partial(changes.close, attempt_id=attempt_id, end=end))

    def _add_attempt(
        self, session: Session, granted: Start, stored: _Stored, token: str, epoch: int
    ) -> Attempt | None:
        """The new attempt; None where the job does not wait any more, or another server was faster."""
        job = session.get_one(Job, granted.job_id)
        if (
            job.state != State.QUEUED
            or not self._membership.lives(session)
            or self._taken(session, granted, stored)
            or _beyond_quota(session, job.project, granted)
        ):
            return None
        number = 1 + len(job.attempts)
        attempt = Attempt(
            job_id=job.id,
            number=number,
            parties=[
                p.name for p in parties(stored.plan, stored.job.cluster.workers, stored.job.network.hosts)
            ],
            token_sha256=token_sha256(token),
            epoch_unix_ns=epoch,
            directory=str(self._data_dir / "jobs" / job.id / str(number)),
            devices=[device.id for device in granted.devices],
            device_models=[device.model for device in granted.devices],
            created_unix_ns=epoch,
            server_id=self._membership.id,
            home=self._membership.place.home or None,
            view=self._membership.place.view,
            called=self._membership.called,
        )
        record.place(session, job, attempt)
        return attempt

    def _taken(self, session: Session, granted: Start, stored: _Stored) -> bool:
        """Whether somebody has its devices, or its solitude, since the decision was made: servers beside one another
        decide at once, and place in turn."""
        held = snapshot.taken(session, self._membership.place)
        if any(device.id in held for device in granted.devices):
            return True
        return bool(held) and (stored.job.cluster.alone or any(held.values()))


def _beyond_quota(session: Session, project: str | None, granted: Start) -> bool:
    """Whether another server has placed so much of its project since the decision was made."""
    row = None if project is None else session.get(Project, project)
    if row is None:
        return False
    limits = quota.Quota(cpu=row.cpu, cuda=row.cuda, rehearsal=row.rehearsal)
    needed = {device.id: device.kind for device in granted.devices}
    (kind,) = set(needed.values())
    if limits.of(kind) is None:
        return False
    return quota.over(limits, kind, len(needed), usage.holds(session, row.name, kind)) is not None


def _stored(row: Job) -> _Stored:
    """Raises UserError where this version of the program cannot read the row."""
    plan = row.plan or {}
    kind: type[Plan] | type[Wrapper] = Wrapper if "runner" in plan else Plan
    return _Stored(
        job=from_plain(JobSpec, row.spec),
        plan=from_plain(kind, plan),
        model=ModelDescription.from_dict(row.description or {}),
        owner=row.owner,
    )
