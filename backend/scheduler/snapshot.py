"""The scheduler's view of the database: what waits, what runs, what is occupied by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, joinedload

from backend.db.models import Attempt, Job
from backend.lifecycle import ACTIVE, State
from backend.scheduler import decide, durations
from backend.scheduler.place import Place
from engine.errors import UserError
from engine.plan.job import ClusterSpec
from engine.plan.serde import from_plain

SOME = 500
"""Jobs whose specifications are read at once."""


class Queue:
    """The jobs that wait. It is looked at often and may be long, so what a job asks for, which never changes, is
    read once."""

    def __init__(self) -> None:
        self._demands: dict[str, tuple[decide.Demand, int | None] | UserError] = {}
        """By job: what it asks for, and how long it is expected to run."""

    @property
    def unreadable(self) -> dict[str, UserError]:
        """Of the jobs that were read last, those that another version stored and this one cannot place: why not."""
        return {id_: found for id_, found in self._demands.items() if isinstance(found, UserError)}

    def read(self, session: Session, now_unix_ns: int) -> list[Queued]:
        """Those that may be placed now, in no particular order: a job that backs off is in nobody's way."""
        due = Job.retry_unix_ns.is_(None) | (Job.retry_unix_ns <= now_unix_ns)
        age = func.coalesce(Job.queued_unix_ns, Job.created_unix_ns)
        query = select(Job.id, Job.name, Job.priority, age, Job.message).where(Job.state == State.QUEUED, due)
        rows = session.execute(query).all()
        new = [id_ for id_, *_ in rows if id_ not in self._demands]
        for first in range(0, len(new), SOME):
            specs = select(Job.id, Job.spec).where(Job.id.in_(new[first : first + SOME]))
            self._demands.update({id_: _demand(spec) for id_, spec in session.execute(specs)})
        self._demands = {id_: self._demands[id_] for id_, *_ in rows}
        return [
            Queued(
                job=decide.QueuedJob(
                    id=id_,
                    name=name,
                    demand=known[0],
                    priority=priority,
                    queued_unix_ns=queued,
                    duration_ns=known[1],
                ),
                said=said,
            )
            for id_, name, priority, queued, said in rows
            if isinstance(known := self._demands[id_], tuple)
        ]


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A job that waits."""

    job: decide.QueuedJob
    said: str | None
    """What it was told about why."""


def queued(job: Job) -> decide.QueuedJob | None:
    """A job that waits, as a decision knows it; None for one that cannot be read."""
    if isinstance(known := _demand(job.spec), UserError):
        return None
    age = job.queued_unix_ns or job.created_unix_ns
    return decide.QueuedJob(
        id=job.id,
        name=job.name,
        demand=known[0],
        priority=job.priority,
        queued_unix_ns=age,
        duration_ns=known[1],
    )


def _demand(spec: dict[str, Any]) -> tuple[decide.Demand, int | None] | UserError:
    """What a job asks for and how long it is expected to run, or why it cannot be read."""
    try:
        cluster = from_plain(ClusterSpec, spec.get("cluster", {}), "cluster")
    except UserError as error:
        return error
    seconds = spec.get("duration_s")
    declared = float(seconds) if isinstance(seconds, int | float) else None
    return decide.Demand.of(cluster, spec.get("fidelity", "")), durations.expected(declared, ())


def next_retry(session: Session, now_unix_ns: int) -> int | None:
    """When the next job that backs off comes back into the queue; None: there is none."""
    waits = (Job.state == State.QUEUED, Job.retry_unix_ns > now_unix_ns)
    return session.scalar(select(func.min(Job.retry_unix_ns)).where(*waits))


def active_attempts(session: Session, which: ColumnElement[bool]) -> Sequence[Attempt]:
    """Attempts that hold devices, of those, each with its job's name and state."""
    job = joinedload(Attempt.job).load_only(Job.name, Job.state, raiseload=True)
    query = select(Attempt).where(Attempt.state.in_(ACTIVE), which).options(job)
    return session.scalars(query.order_by(Attempt.id)).all()


def occupied(session: Session, place: Place) -> dict[str, decide.Occupant]:
    """Device id to who holds it; also who runs on this machine on slots of another server."""
    alone, declared = Job.spec["cluster"]["alone"].as_boolean(), Job.spec["duration_s"].as_float()
    query = select(
        Attempt.devices,
        Attempt.home,
        Attempt.created_unix_ns,
        Attempt.state,
        Job.id,
        Job.name,
        alone,
        declared,
    ).join(Job)
    here = query.where(Attempt.state.in_(ACTIVE), place.devices).order_by(Attempt.id)
    return {
        place.device(home, device): decide.Occupant(
            job_id=job_id,
            job_name=name,
            alone=bool(is_alone),
            since_unix_ns=since,
            ends_unix_ns=None if (lasts := durations.expected(seconds, ())) is None else since + lasts,
            leaving=state == State.PREEMPTING,
        )
        for devices, home, since, state, job_id, name, is_alone, seconds in session.execute(here)
        for device in devices
    }


def state(
    session: Session,
    queue: Sequence[Queued],
    inventory: decide.Inventory,
    place: Place,
    aside: Mapping[str, decide.Occupant],
    *,
    paused: bool,
    now_unix_ns: int,
) -> decide.State:
    """All that `decide` wants to know; `aside`: what runs and is no job."""
    return decide.State(
        queued=tuple(waiting.job for waiting in queue),
        inventory=inventory,
        occupied={**aside, **occupied(session, place)},
        paused=paused,
        now_unix_ns=now_unix_ns,
    )
