"""Scheduling decisions: state in, instructions out. No clock, no database, no processes.

Rules: the whole gang gets its devices at once or none; higher priority first (`priority.py`), then whose project's turn
it is (`fair_share.py`), then the older job. Whoever waits first for a kind of device is overtaken only by those that
leave its start where it is, as far as ends are known (`backfill.py`), so a wide job cannot be starved by narrow ones.
For it, jobs of a lower priority may have to make room (`victims.py`). A project holds no more than its quota
(`quota.py`), and a drained device is given to nobody (`maintenance.py`). A rehearsal computes nothing, so all its
workers together take one slot for rehearsals. A job that runs alone waits until nothing runs, and nobody starts before
its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from backend.lifecycle import Reason
from backend.scheduler import words
from backend.scheduler.backfill import Fits, Reservation, kept_from, reserve
from backend.scheduler.fair_share import Shares
from backend.scheduler.floor import Floor
from backend.scheduler.gang import widest
from backend.scheduler.instructions import Instruction, Preempt, Refuse, Start, Wait
from backend.scheduler.maintenance import usable
from backend.scheduler.priority import in_order
from backend.scheduler.quota import Quota, over
from backend.scheduler.victims import Run, victims
from engine.errors import UserError
from engine.plan.job import ClusterSpec

Kind = Literal["cpu", "cuda", "rehearsal"]
KINDS: tuple[Kind, ...] = ("cpu", "cuda", "rehearsal")
MOST_REHEARSED = 64
"""Workers of a rehearsal."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One place for one worker."""

    id: str
    """`cpu:0`, `cuda:1`, `rehearsal:0`."""
    kind: Kind
    name: str
    """What people call it."""
    model: str = ""
    """What was built: equal texts are equally fast. Empty: the machine does not say."""
    memory_bytes: int | None = None
    """Its own memory; None for a CPU slot, which shares the machine's."""
    node: str = ""
    """The node that it is on. Empty: the server's own machine."""

    @property
    def torch_device(self) -> str:
        """What PyTorch calls it: slots share one device."""
        return self.id if self.kind == "cuda" else "cpu"


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Every device that a server may give to jobs."""

    devices: tuple[Device, ...]
    spans: bool = False
    """The executor can run one gang on several nodes."""

    def of(self, kind: Kind) -> tuple[Device, ...]:
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self) -> dict[Kind, tuple[Device, ...]]:
        return {kind: tuple(device for device in self.devices if device.kind == kind) for kind in KINDS}

    @cached_property
    def plain(self) -> dict[Kind, bool]:
        """Whether of a kind any device is as good to a gang as any other."""
        return {
            kind: len({(device.node, device.model if kind == "cuda" else "") for device in devices}) < 2
            for kind, devices in self._by_kind.items()
        }

    def device(self, id_: str) -> Device:
        """Raises KeyError for an id that is not in the inventory."""
        return next(d for d in self.devices if d.id == id_)


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a job asks for."""

    workers: int
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """One per worker, unless it is a rehearsal."""
    rehearsal: bool = False
    alone: bool = False
    nodes: Literal["pack", "spread"] = "pack"
    mixed_gpus: bool = False
    """Its GPUs may be of several models."""

    @property
    def devices(self) -> int:
        """How many it holds."""
        return 1 if self.rehearsal else self.workers

    @classmethod
    def of(cls, cluster: ClusterSpec, fidelity: str) -> Demand:
        """That of a job's specification."""
        rehearsal = fidelity == "rehearse"
        return cls(
            workers=cluster.workers,
            device=cluster.device,
            rehearsal=rehearsal,
            alone=cluster.alone,
            nodes=cluster.nodes,
            mixed_gpus=cluster.mixed_gpus,
        )


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job that waits."""

    id: str
    name: str
    demand: Demand
    priority: int
    queued_unix_ns: int
    project: str = ""
    duration_ns: int | None = None
    """How long it is expected to run from now on; None: nobody knows."""
    asks: bool = True
    """Jobs of a lower priority may have to make room for it. False: it has made room itself, and nobody is asked in
    turn."""
    beside: tuple[str, ...] = ()
    """Devices on which other jobs of its race ran: it gets CUDA devices among these only, of other kinds these first.
    Those that are drained, or gone, do not count."""


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """Who holds a device."""

    job_id: str
    """Empty: it is no job."""
    job_name: str
    alone: bool = False
    """Nobody else starts before it has ended."""
    project: str = ""
    priority: int = 0
    since_unix_ns: int = 0
    ends_unix_ns: int | None = None
    """When it is expected to end; None: nobody knows."""
    saves: bool = False
    """It runs, and can end with a checkpoint."""
    yields: bool = False
    """It may be asked to make room for a higher priority: it saves, does not refuse to, and was not asked too often."""
    leaving: bool = False
    """It makes room already: nobody else is asked while it does, and what it holds is as good as free."""
    asked_unix_ns: int | None = None
    """When it was asked to make room; None: it was not."""


@dataclass(frozen=True, kw_only=True)
class State:
    """All that a decision depends on."""

    queued: tuple[QueuedJob, ...]
    inventory: Inventory
    occupied: Mapping[str, Occupant]
    """Device id to who holds it; an empty id to who holds none, but is in the way of whoever runs alone."""
    paused: bool = False
    """Nobody is placed, nor refused, nor asked to make room but for maintenance."""
    outage: str | None = None
    """Why nobody can be launched now, which is as if the server were paused."""
    now_unix_ns: int = 0
    backfill: bool = True
    """Jobs may start before their turn where that delays nobody who is first."""
    drained: Mapping[str, int] = field(default_factory=dict)
    """Device id to the moment (Unix) from which on it is given to nobody."""
    emptied: Mapping[str, int] = field(default_factory=dict)
    """Of those, the devices on which who can save a checkpoint makes room then, and when that is."""
    back: tuple[int, ...] = ()
    """Moments (Unix) at which drained devices come back by themselves. Nobody counts on them before."""
    shares: Shares = Shares()
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    """Project to what it may hold."""
    elsewhere: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(project, kind) to the devices that it holds at other servers."""


def check_demand(demand: Demand, inventory: Inventory) -> Kind:
    """The kind of device that a job gets. Raises UserError when it asks for more than the inventory has, free
    or not."""
    cpus, gpus = (widest(inventory.of(kind), demand, spans=inventory.spans) for kind in ("cpu", "cuda"))
    if demand.rehearsal and demand.workers > MOST_REHEARSED:
        raise UserError(
            "cluster.workers",
            demand.workers,
            f"a rehearsal has at most {MOST_REHEARSED} workers: each is a process with the model's gradients",
            "Use fewer",
        )
    if demand.rehearsal:
        return "rehearsal"
    if demand.device == "cuda" and gpus == 0:
        raise UserError("cluster.device", "cuda", "this server has no CUDA device", "Use cpu or auto")
    if demand.device != "cpu" and demand.workers <= gpus:
        return "cuda"
    if demand.device == "cuda":
        rule, remedy = words.too_many("cuda", gpus, inventory.of("cuda"), demand)
        raise UserError("cluster.workers", demand.workers, rule, f"Use at most {gpus}, {remedy}or device cpu")
    if demand.workers > cpus:
        raise UserError(
            "cluster.workers",
            demand.workers,
            words.too_many("cpu", cpus, inventory.of("cpu"), demand)[0],
            f"Use at most {cpus}, or start the server with TRAINYARD_CPU_DEVICES={demand.workers} or more",
        )
    return "cpu"


def decide(state: State) -> tuple[Instruction, ...]:
    """What to do with every queued job, in the order of the queue."""
    kinds: dict[str, Kind] = {}
    refused: dict[str, UserError] = {}
    for job in state.queued:
        try:
            kinds[job.id] = check_demand(job.demand, state.inventory)
        except UserError as error:
            refused[job.id] = error
    ordered = in_order(state.queued, kinds, state.shares)
    if state.paused or state.outage is not None:
        reason = Reason.SERVER_PAUSED if state.paused else Reason.WAITING_FOR_DEVICES
        text = f"{reason.summary} {reason.remedy}" if state.paused else words.for_executor(state.outage or "")
        waits = (
            Wait(job_id=job.id, position=position, reason=reason, text=text, blocked_by=())
            for position, job in enumerate(ordered, start=1)
        )
        return *_emptied(Floor(state)), *waits
    return tuple(_Pass(state, kinds, refused).over(ordered))


def _emptied(floor: Floor) -> Iterator[Preempt]:
    """Who leaves devices that are in maintenance."""
    for id_ in floor.to_empty():
        floor.ask(id_)
        yield Preempt(job_id=id_, text=words.ROOM_FOR_MAINTENANCE)


class _Pass:
    """One look at the whole queue. What it starts is held from then on; whom it asks to make room is leaving."""

    def __init__(self, state: State, kinds: Mapping[str, Kind], refused: Mapping[str, UserError]) -> None:
        self._state, self._kinds, self._refused = state, kinds, refused
        self._floor = Floor(state)
        self._lines: dict[Kind, list[QueuedJob]] = {kind: [] for kind in KINDS}
        """Who waits for a kind of device, the first one first."""
        self._blocked: QueuedJob | None = None
        """The job in front that waits until it can be alone: it is first in every line in which nobody is yet."""
        self._kept: dict[str, Reservation | None] = {}
        """Of each job that is first in a line."""

    def over(self, ordered: Iterator[QueuedJob]) -> Iterator[Instruction]:
        """What to do with each."""
        yield from _emptied(self._floor)
        for job in ordered:
            if (error := self._refused.get(job.id)) is not None:
                yield Refuse(job_id=job.id, error=error)
            else:
                yield from self._one(job, self._kinds[job.id])

    def _one(self, job: QueuedJob, kind: Kind) -> Iterator[Instruction]:
        needed, holds = job.demand.devices, self._floor.counts.get((job.project, kind), 0)
        if (limit := over(self._state.quotas.get(job.project), kind, needed, holds)) is not None:
            text = words.over_quota(job, kind, needed, holds, limit)
            yield Wait(job_id=job.id, position=1, reason=Reason.OVER_QUOTA, text=text, blocked_by=())
            return
        every = list(self._state.inventory.of(kind))
        if self._state.drained and self._floor.choose(job, kind, every, self._state.now_unix_ns) is None:
            # It would not fit if nobody ran, so it is in nobody's way.
            text = words.in_maintenance(job, kind, sum(d.id in self._state.drained for d in every))
            yield Wait(job_id=job.id, position=1, reason=Reason.MAINTENANCE, text=text, blocked_by=())
            return
        line = self._lines[kind]
        if self._blocked is not None and not line:
            line.append(self._blocked)
        given = self._early(job, kind) if line else self._floor.fits(job, kind, (), self._state.now_unix_ns)
        if given is not None:
            mine = Occupant(
                job_id=job.id,
                job_name=job.name,
                alone=job.demand.alone,
                project=job.project,
                priority=job.priority,
                since_unix_ns=self._state.now_unix_ns,
                ends_unix_ns=self._ends(job),
            )
            self._floor.give(mine, given)
            yield Start(job_id=job.id, devices=tuple(given) * (job.demand.workers // needed))
            return
        if line:
            before, position = line[-1], len(line) + 1
            text, reason = words.in_line(job, before, position), Reason.WAITING_IN_LINE
            yield Wait(job_id=job.id, position=position, reason=reason, text=text, blocked_by=(before.id,))
        else:
            yield self._waits_first(job, kind)
            yield from self._make_room(job, kind)
            self._reserve(job, kind)
        line.append(job)

    def _early(self, job: QueuedJob, kind: Kind) -> list[Device] | None:
        """What a job gets that starts before those who wait; None where it may not."""
        free = self._floor.free[kind]
        if (
            not self._state.backfill
            or job.demand.alone
            or len(free) < job.demand.devices
            or self._floor.owner()
        ):
            return None
        off: set[str] = set()
        firsts = [self._lines[kind][0]] if self._blocked is None else [self._lines[kind][0], self._blocked]
        for first in firsts:
            kept = kept_from(self._kept[first.id], self._ends(job))
            if kept is None:
                return None
            off |= kept
        return self._floor.choose(job, kind, [d for d in free if d.id not in off], self._state.now_unix_ns)

    def _make_room(self, job: QueuedJob, kind: Kind) -> Iterator[Preempt]:
        leaving = [id_ for id_, run in self._floor.runs.items() if run.leaving]
        asked = [
            Run(job_id=id_, priority=run.priority, since_ns=run.since_unix_ns)
            for id_, run in self._floor.runs.items()
            if run.yields and not run.leaving
        ]
        if not asked or not job.asks:
            return
        for id_ in victims(self._fits(job, kind), job.priority, leaving, asked, self._state.now_unix_ns):
            self._floor.ask(id_)
            yield Preempt(job_id=id_, text=words.room_for(job), for_job=job.id)

    def _fits(self, job: QueuedJob, kind: Kind) -> Fits:
        """Which devices the job keeps from others once some have ended: all of them where it runs alone."""

        def fits(gone: Sequence[str], at_ns: int) -> list[str] | None:
            found = self._floor.fits(job, kind, gone, at_ns)
            if found is not None and job.demand.alone:
                found = list(self._state.inventory.devices)
            return None if found is None else [device.id for device in found]

        return fits

    def _reserve(self, job: QueuedJob, kind: Kind) -> None:
        """The job is first in its line from now on."""
        state, now = self._state, self._state.now_unix_ns
        if job.demand.alone:
            self._blocked = job
        # Whoever wants to be alone waits also for those who are first in other lines.
        if not state.backfill or (job.demand.alone and any(self._lines.values())):
            self._kept[job.id] = None
            return

        ends = {id_: now if run.leaving else run.ends_unix_ns for id_, run in self._floor.runs.items()}
        sizes = {id_: self._floor.size(id_, kind) for id_ in ends}
        short = job.demand.devices - len(self._floor.free[kind])
        self._kept[job.id] = reserve(self._fits(job, kind), ends, sizes, short, now)

    def _waits_first(self, job: QueuedJob, kind: Kind) -> Wait:
        owner = self._floor.owner()
        if owner is not None or (job.demand.alone and self._floor.held):
            names = {run.job_id: run.job_name for run in self._floor.runs.values()}
            text = words.for_others(owner, names.values())
            blocked_by = (owner.job_id,) if owner is not None else tuple(names)
        else:
            free, now = self._floor.free[kind], self._state.now_unix_ns
            out = [d.id for d in free if not usable(self._state.drained, d.id, now, job.duration_ns)]
            needed, held = job.demand.devices, self._floor.held
            every = self._state.inventory.of(kind)
            text = words.for_devices(kind, needed, len(free) - len(out), every, held, out)
            if len(free) - len(out) >= needed:
                beside = self._floor.beside(job, now)
                text = words.for_group(beside) if beside else words.for_together(kind, job.demand, len(free))
            blocked_by = tuple(dict.fromkeys(held[d.id].job_id for d in every if d.id in held))
        reason = Reason.WAITING_FOR_DEVICES
        return Wait(job_id=job.id, position=1, reason=reason, text=text, blocked_by=blocked_by)

    def _ends(self, job: QueuedJob) -> int | None:
        return None if job.duration_ns is None else self._state.now_unix_ns + job.duration_ns
