"""The scheduler's view of the database: what waits, what runs, what is occupied by whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select
from sqlalchemy.orm import Session, joinedload

from backend.db.models import Attempt, Job, Maintenance, Project, Transition
from backend.lifecycle import ACTIVE, ENDED, State
from backend.races.order import race_of_key
from backend.scheduler import decide, durations, victims
from backend.scheduler.beside import Beside, beside
from backend.scheduler.fair_share import Shares
from backend.scheduler.learned import Learned
from backend.scheduler.place import Place
from backend.scheduler.quota import Quota
from backend.scheduler.usage import Usage
from engine.errors import UserError
from engine.plan.job import ClusterSpec
from engine.plan.serde import from_plain

SOME = 500
"""Jobs whose specifications are read at once."""
_Asked = tuple[decide.Demand, float | None]
"""What a job asks for, and the seconds that it declared."""


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A job that waits."""

    job: decide.QueuedJob
    said: str | None
    """What it was told about why."""
    learned: bool
    """Its duration is what earlier jobs took."""
    elsewhere: str | None = None
    """The server that has to place it, where that is another one."""


class Queue:
    """The jobs that wait. It is looked at often and may be long, so what the database says of a job is read when the
    job is new or has another revision, and put together anew when that, or what surrounds it, is not what it was."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}
        """By job."""
        self._found: dict[str, tuple[_Read, _Around, Queued]] = {}
        """What was put together of which parts."""
        self.learned = Learned()

    @property
    def unreadable(self) -> dict[str, UserError]:
        """Of the jobs that were read last, those that another version stored and this one cannot place: why not."""
        return {id_: one.asked for id_, one in self._read.items() if isinstance(one.asked, UserError)}

    def read(
        self, session: Session, place: Place, now_unix_ns: int, only: Collection[str] | None = None
    ) -> list[Queued]:
        """Those that may be placed now, in no particular order: a job that backs off is in nobody's way. `only`: of
        these jobs; None: of all. What jobs that run took is known from then on, too (`learned`)."""
        self._renew(session, now_unix_ns, only)
        run = session.scalars(select(Job.digest).join(Attempt).where(Attempt.state.in_(ACTIVE)))
        self.learned.read(session, {*run, *(one.row.digest for one in self._read.values())}, now_unix_ns)
        before = _before(session)
        groups = beside(session, place, {one.race for one in self._read.values() if one.race is not None})
        found: dict[str, tuple[_Read, _Around, Queued]] = {}
        for id_, one in self._read.items():
            if isinstance(one.asked, UserError):
                continue
            group = ALONE if one.race is None else groups.get(one.race, ALONE)
            around = (before.get(id_, NOTHING), group, self.learned.took(one.row.digest))
            known = self._found.get(id_)
            same = known is not None and known[0] is one and known[1] == around
            found[id_] = (
                known if known is not None and same else (one, around, _queued(one, one.asked, around))
            )
        self._found = found
        return [queued for _, _, queued in found.values()]

    def _renew(self, session: Session, now_unix_ns: int, only: Collection[str] | None) -> None:
        query = waiting(now_unix_ns)
        rows = session.execute(query if only is None else query.where(Job.id.in_(only)))
        revisions: dict[str, int] = {row.id: row.revision for row in rows}
        known = {id_: one for id_, one in self._read.items() if id_ in revisions}
        changed = [
            id_ for id_, number in revisions.items() if id_ not in known or known[id_].revision != number
        ]
        for first in range(0, len(changed), SOME):
            some = changed[first : first + SOME]
            new = [id_ for id_ in some if id_ not in known]  # what a job asks for never changes
            specs = session.execute(select(Job.id, Job.spec).where(Job.id.in_(new))) if new else ()
            asked = {id_: _asks(spec) for id_, spec in specs}
            for row in session.execute(select(*FACTS).where(Job.id.in_(some))):
                known[row.id] = _Read(
                    revision=revisions[row.id],
                    row=row,
                    asked=asked[row.id] if row.id in asked else known[row.id].asked,
                    race=race_of_key(row.idempotency_key),
                )
        self._read = known


AGE = func.coalesce(Job.queued_unix_ns, Job.created_unix_ns).label("queued")
FACTS = (Job.id, Job.name, Job.priority, Job.message, Job.digest, Job.project, Job.idempotency_key, AGE)


def waiting(now_unix_ns: int) -> Select[str, int]:
    """Jobs that may be placed now, and the revision of each. Their state is written out: else the index of jobs that
    wait would not be used."""
    due = Job.retry_unix_ns.is_(None) | (Job.retry_unix_ns <= now_unix_ns)
    return select(Job.id, Job.revision).where(Job.state == literal_column(f"'{State.QUEUED.value}'"), due)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What the database says of one job."""

    revision: int
    row: Any
    """Its row of FACTS."""
    asked: _Asked | UserError
    race: str | None


def _queued(one: _Read, asked: _Asked, around: _Around) -> Queued:
    (demand, declared), row = asked, one.row
    earlier, group, took = around
    expected = durations.expected(declared, took)
    job = decide.QueuedJob(
        id=row.id,
        name=row.name,
        demand=demand,
        priority=row.priority,
        queued_unix_ns=row.queued,
        duration_ns=durations.left(expected, earlier.ran_ns),
        asks=earlier.made_room == 0,
        project=row.project or "",
        beside=group.devices,
    )
    learned = declared is None and expected is not None
    return Queued(job=job, said=row.message, learned=learned, elsewhere=group.server)


@dataclass(frozen=True, kw_only=True)
class _Before:
    """What a job did in attempts that made room."""

    ran_ns: int
    """In all of them."""
    made_room: int
    """How often, by the scheduler's rule."""


NOTHING, ALONE = _Before(ran_ns=0, made_room=0), Beside()
_Around = tuple[_Before, Beside, Sequence[int]]
"""What it did before, where the jobs of its race ran, and how long others of its digest took."""


def _before(session: Session) -> dict[str, _Before]:
    """By job, of those that have not ended."""
    ran = func.sum(Attempt.ended_unix_ns - Attempt.created_unix_ns)
    query = select(Attempt.job_id, ran, func.count(Attempt.preempted_for)).join(Job)
    query = query.where(Attempt.state == State.PREEMPTED, Job.state.not_in(ENDED)).group_by(Attempt.job_id)
    return {id_: _Before(ran_ns=int(ns or 0), made_room=times) for id_, ns, times in session.execute(query)}


def _asks(spec: dict[str, Any]) -> _Asked | UserError:
    """What a job asks for and declares, or why it cannot be read."""
    try:
        cluster = from_plain(ClusterSpec, spec.get("cluster", {}), "cluster")
    except UserError as error:
        return error
    seconds = spec.get("duration_s")
    declared = float(seconds) if isinstance(seconds, int | float) else None
    return decide.Demand.of(cluster, spec.get("fidelity", "")), declared


def next_retry(session: Session, now_unix_ns: int) -> int | None:
    """When the next job that backs off comes back into the queue; None: there is none."""
    waits = (Job.state == State.QUEUED, Job.retry_unix_ns > now_unix_ns)
    return session.scalar(select(func.min(Job.retry_unix_ns)).where(*waits))


def active_attempts(session: Session, which: ColumnElement[bool]) -> Sequence[Attempt]:
    """Attempts that hold devices, of those, each with its job's name and state."""
    job = joinedload(Attempt.job).load_only(Job.name, Job.state, raiseload=True)
    query = select(Attempt).where(Attempt.state.in_(ACTIVE), which).options(job)
    return session.scalars(query.order_by(Attempt.id)).all()


def occupied(session: Session, place: Place, learned: Learned | None = None) -> dict[str, decide.Occupant]:
    """Device id to who holds it; also who runs on this machine on slots of another server. `learned`: what jobs of the
    same digests took; None: ends are known by what jobs declared only."""
    spec, saving = Job.spec, Job.spec["checkpoint"]
    query = select(
        Attempt.id.label("attempt"),
        Attempt.devices,
        Attempt.home,
        Attempt.view,
        Attempt.created_unix_ns,
        Attempt.state,
        Job.id,
        Job.name,
        Job.priority,
        Job.digest,
        Job.project,
        spec["cluster"]["alone"].as_boolean().label("alone"),
        spec["duration_s"].as_float().label("declared"),
        saving["every_steps"].as_float().label("every_steps"),
        saving["every_seconds"].as_float().label("every_seconds"),
        saving["yields"].as_boolean().label("yields"),
    ).join(Job)
    here = query.where(Attempt.state.in_(ACTIVE), place.devices).order_by(Attempt.id)
    before = _before(session)
    held: dict[str, decide.Occupant] = {}
    rows = session.execute(here).all()
    asked = _asked(session, [row.attempt for row in rows if row.state == State.PREEMPTING])
    for row in rows:
        saves = row.state == State.RUNNING and (row.every_steps or row.every_seconds) is not None
        earlier = before.get(row.id, NOTHING)
        took = learned.took(row.digest) if learned is not None else ()
        left = durations.left(durations.expected(row.declared, took), earlier.ran_ns)
        who = decide.Occupant(
            job_id=row.id,
            job_name=row.name,
            alone=bool(row.alone),
            project=row.project or "",
            priority=row.priority,
            since_unix_ns=row.created_unix_ns,
            ends_unix_ns=None if left is None else row.created_unix_ns + left,
            saves=saves,
            yields=saves and row.yields is not False and earlier.made_room < victims.MOST,
            leaving=row.state == State.PREEMPTING,
            asked_unix_ns=asked.get(row.attempt),
        )
        held.update({place.device(row.home, row.view, device): who for device in row.devices})
    return held


def _asked(session: Session, attempts: Sequence[int]) -> dict[int, int]:
    """When these were asked to make room."""
    if not attempts:
        return {}
    to = (Transition.attempt_id.in_(attempts), Transition.to_state == State.PREEMPTING)
    last = select(Transition.attempt_id, func.max(Transition.at_unix_ns)).where(*to)
    rows = session.execute(last.group_by(Transition.attempt_id))
    return {attempt: at_ns for attempt, at_ns in rows if attempt is not None}


def taken(session: Session, place: Place) -> dict[str, bool]:
    """Device id to whether its holder runs alone: of `occupied` what a placement has to know."""
    alone = Job.spec["cluster"]["alone"].as_boolean()
    query = select(Attempt.devices, Attempt.home, Attempt.view, alone).join(Job)
    held = session.execute(query.where(Attempt.state.in_(ACTIVE), place.devices))
    return {
        place.device(home, view, device): bool(alone)
        for devices, home, view, alone in held
        for device in devices
    }


@dataclass(frozen=True, kw_only=True)
class Drained:
    """Which devices are in maintenance, or will be; each device id to a moment (Unix, ns)."""

    begins: Mapping[str, int]
    """From when on."""
    emptied: Mapping[str, int]
    """Those on which jobs with checkpoints make room then."""
    ends: tuple[int, ...]
    """The moments at which some come back by themselves."""


def drained(
    session: Session, place: Place, inventory: decide.Inventory, now_unix_ns: int, ahead_ns: int = 0
) -> Drained:
    """As this place has it, by this server's clock, which is `ahead_ns` ahead of the database's."""
    begins: dict[str, int] = {}
    emptied: dict[str, int] = {}
    ends: list[int] = []
    every = [device.id for device in inventory.devices]
    for row in session.scalars(
        select(Maintenance).where(place.concerns(Maintenance), goes_on(now_unix_ns - ahead_ns))
    ):
        from_ = row.begins_unix_ns + ahead_ns
        if row.ends_unix_ns is not None:
            ends.append(row.ends_unix_ns + ahead_ns)
        for id_ in every if row.devices is None else row.devices:
            device = id_ if row.node is not None else place.device(row.home, row.view, id_)
            for moments in (begins, emptied) if row.makes_room else (begins,):
                moments[device] = min(moments.get(device, from_), from_)
    return Drained(begins=begins, emptied=emptied, ends=tuple(sorted(ends)))


def goes_on(now_unix_ns: int) -> ColumnElement[bool]:
    """Maintenance that is not over; `now_unix_ns`: by the database's clock, here and below."""
    return Maintenance.ends_unix_ns.is_(None) | (Maintenance.ends_unix_ns > now_unix_ns)


def maintenance_is_over(session: Session, now_unix_ns: int) -> bool:
    """Whether some had an end, and it has come."""
    over = select(Maintenance.id).where(Maintenance.ends_unix_ns <= now_unix_ns)
    return session.scalar(over.limit(1)) is not None


def projects(session: Session) -> tuple[dict[str, Quota], dict[str, float]]:
    """What each project may hold, and its weight."""
    rows = session.scalars(select(Project)).all()
    quotas = {row.name: Quota(cpu=row.cpu, cuda=row.cuda, rehearsal=row.rehearsal) for row in rows}
    return quotas, {row.name: row.weight for row in rows}


def state(
    session: Session,
    queue: Sequence[Queued],
    inventory: decide.Inventory,
    place: Place,
    aside: Mapping[str, decide.Occupant],
    learned: Learned,
    usage: Usage,
    *,
    paused: bool,
    outage: str | None = None,
    ahead_ns: int = 0,
    now_unix_ns: int,
) -> decide.State:
    """All that `decide` wants to know; `aside`: what runs and is no job. `outage`: of the executor. `learned`: as the
    queue has read it. `ahead_ns`: of this server's clock (`drained`). Jobs that another server has to place are left
    out."""
    out = drained(session, place, inventory, now_unix_ns, ahead_ns)
    held = {
        device: replace(run, leaving=run.leaving and not victims.stays(run.asked_unix_ns, now_unix_ns))
        for device, run in occupied(session, place, learned).items()
    }
    quotas, weights = projects(session)
    elsewhere: dict[tuple[str, str], int] = {}
    shares = Shares()
    if quotas:
        ends = {run.job_id: run.ends_unix_ns for run in held.values()}
        elsewhere = usage.elsewhere(session, place, inventory)
        shares = Shares(used=usage.used(session, ends, now_unix_ns), weights=weights)
    return decide.State(
        quotas=quotas,
        shares=shares,
        elsewhere=elsewhere,
        drained=out.begins,
        emptied=out.emptied,
        back=out.ends,
        queued=tuple(waiting.job for waiting in queue if waiting.elsewhere is None),
        inventory=inventory,
        occupied={**aside, **held},
        paused=paused,
        outage=outage,
        now_unix_ns=now_unix_ns,
    )
