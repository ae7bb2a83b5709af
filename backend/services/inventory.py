"""The machine's devices, who is on them, and who waits for them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.lifecycle import Reason, State
from backend.scheduler import decide, quota, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.priority import in_order
from backend.scheduler.usage import Usage
from backend.scheduler.virtual import forecast
from backend.schemas.catalogue import Device, Queue, Waiting
from backend.services.nodes import shown_devices
from backend.services.times import moment, moment_or_none
from engine.errors import UnknownNameError, UserError
from engine.plan.job import ClusterSpec, JobSpec
from engine.plan.serde import from_plain

FORESEEN = 50
"""Of the jobs that wait, so many are told when they start: each start is a look at all of them."""


@dataclass(frozen=True, kw_only=True)
class _Starts:
    """When jobs will start."""

    at_ns: Mapping[str, int] = field(default_factory=dict)
    """By job, of those of which it is known."""
    learned: bool = False
    """Some of the durations that it rests on are what earlier jobs took."""


class Inventory:
    """What the scheduler has to give, as the API shows it."""

    def __init__(self, database: Database, inventory: decide.Inventory, membership: Alone) -> None:
        self._database = database
        self._membership = membership
        self._place = membership.place
        self._inventory = inventory
        self._usage, self._counting = Usage(), threading.Lock()

    def usage(self) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], int]]:
        """(project, kind of device) to the device seconds that count for its share now, and to the devices that it
        holds at all servers."""
        with self._database.read() as session, self._counting:
            held = self._usage.elsewhere(session, self._place, decide.Inventory(devices=()))
            return self._usage.used(session, {}, time.time_ns()), held

    def check(self, spec: JobSpec) -> decide.Kind:
        """The kind of device that a job gets. Raises UserError for one that could never be placed, here or on another
        server of this database, or that its project's quota forbids."""
        demand = decide.Demand.of(spec.cluster, spec.fidelity)
        try:
            kind = decide.check_demand(demand, self._inventory)
        except UserError:
            with self._database.read() as session:
                found = self._membership.elsewhere(session, demand)
            if found is None:
                raise
            kind = found
        if spec.project is not None:
            self._check_project(spec.project, kind, demand.devices)
        return kind

    def _check_project(self, project: str, kind: decide.Kind, needed: int) -> None:
        """Raises UserError for a project that is none, or that may never hold so many devices."""
        with self._database.read() as session:
            quotas, _ = snapshot.projects(session)
        if project not in quotas:
            raise UnknownNameError("project", project, "project", sorted(quotas))
        quota.check(project, quotas[project], kind, needed)

    def computes_on(self, spec: JobSpec) -> decide.Kind:
        """What the job's workers would compute on if it were not rehearsed; where the machine has too few devices for
        all of them, what one would get. Raises UserError for a kind that the machine does not have."""
        demand = decide.Demand.of(spec.cluster, "train")
        with suppress(UserError):
            return decide.check_demand(demand, self._inventory)
        return decide.check_demand(replace(demand, workers=1), self._inventory)

    def held(self) -> dict[str, decide.Occupant]:
        """Device id to the job that holds it now."""
        with self._database.read() as session:
            return snapshot.occupied(session, self._place)

    def ran(self, start_ns: int, end_ns: int) -> list[str]:
        """Names of the jobs that held devices at some time between two moments (Unix, in ns), the oldest first."""
        attempt = models.Attempt
        there = (attempt.created_unix_ns < end_ns) & (
            attempt.ended_unix_ns.is_(None) | (attempt.ended_unix_ns > start_ns)
        )
        query = select(models.Job.name, models.Job.id).join(attempt, attempt.job_id == models.Job.id)
        with self._database.read() as session:
            return [
                name for name, _ in session.execute(query.where(there).distinct().order_by(models.Job.id))
            ]

    def devices(self) -> list[Device]:
        """Every device, and who holds it since when."""
        node, server = socket.gethostname(), self._membership.called
        with self._database.read() as session:
            ahead = self._membership.ahead_ns(session)
            return shown_devices(
                session, self._place, self._inventory, node=node, server=server, ahead_ns=ahead
            )

    def queue(self, limit: int) -> Queue:
        """The jobs that wait, in the order in which they may start, with the scheduler's own words."""
        job = models.Job
        since = func.coalesce(job.queued_unix_ns, job.created_unix_ns)
        waiting = job.state == State.QUEUED
        by_age = select(job.id, job.reason).where(waiting).order_by(job.priority.desc(), since, job.id)
        with self._database.read() as session:
            total = session.scalar(select(func.count()).select_from(job).where(waiting)) or 0
            shared = bool(snapshot.projects(session)[0])
            # Where projects share, the next ones may be any of those that wait.
            reasons = dict(session.execute(by_age if shared else by_age.limit(limit)).all())
            due = [id_ for id_, reason in reasons.items() if reason != Reason.SERVER_PAUSED]
            state, learned = self._state(session, due, everything=shared)
            by_turn = self._in_order(list(reasons), state)[:limit]
            first_ones = set(by_turn[:FORESEEN])
            queued = tuple(job for job in state.queued if job.id in first_ones)
            starts = _Starts(at_ns=forecast(replace(state, queued=queued)), learned=learned)
            rows = {row.id: row for row in session.scalars(select(job).where(job.id.in_(by_turn)))}
            items = [self._waiting(rows[id_], starts) for id_ in by_turn]
        return Queue(items=items, total=total)

    def _in_order(self, ids: Sequence[str], state: decide.State) -> Sequence[str]:
        """Jobs as they have their turns. Without projects that is the database's order: by priority and age."""
        if not state.quotas:
            return ids
        kinds = {}
        for job in state.queued:
            with suppress(UserError):
                kinds[job.id] = decide.check_demand(job.demand, self._inventory)
        turns = {job.id: turn for turn, job in enumerate(in_order(state.queued, kinds, state.shares))}
        return sorted(ids, key=lambda id_: turns.get(id_, len(turns)))

    def _state(self, session: Session, due: Sequence[str], *, everything: bool) -> tuple[decide.State, bool]:
        """What decides about those of these jobs that may be placed now; whether it has durations that were learned.
        `everything`: read all that wait, as these are too many to name them."""
        now, queue = time.time_ns(), snapshot.Queue()
        wanted = set(due)
        read = queue.read(session, self._place, now, None if everything else due)
        waiting = [one for one in read if one.job.id in wanted]
        with self._counting:
            state = snapshot.state(
                session,
                waiting,
                self._inventory,
                self._place,
                {},
                queue.learned,
                self._usage,
                paused=False,
                ahead_ns=self._membership.ahead_ns(session),
                now_unix_ns=now,
            )
        declared = snapshot.occupied(session, self._place)
        learned = any(
            run.ends_unix_ns is not None and declared[device].ends_unix_ns is None
            for device, run in state.occupied.items()
            if device in declared
        )
        return state, learned or any(one.learned for one in waiting)

    def _waiting(self, job: models.Job, starts: _Starts) -> Waiting:
        starts_ns = starts.at_ns.get(job.id)
        kind, devices = None, 0
        with suppress(UserError):  # of another version's job, or of one that this machine has nothing for
            cluster = from_plain(ClusterSpec, job.spec.get("cluster", {}), "cluster")
            demand = decide.Demand.of(cluster, job.spec.get("fidelity", ""))
            devices = 1 if demand.rehearsal else demand.workers
            kind = decide.check_demand(demand, self._inventory)
        return Waiting(
            job_id=job.id,
            job_name=job.name,
            priority=job.priority,
            since=moment(job.queued_unix_ns or job.created_unix_ns),
            kind=kind,
            devices=devices,
            reason=job.reason,
            message=job.message,
            retry_at=moment_or_none(job.retry_unix_ns),
            starts_at=moment_or_none(starts_ns),
            starts_by=None if starts_ns is None else "learned" if starts.learned else "declared",
        )
