"""Scheduling decisions: state in, instructions out. No clock, no database, no processes.

Rules: the whole gang gets its devices at once or none; higher priority first, then the older job; nobody
overtakes a job that waits for the same kind of device (so a wide job cannot be starved by narrow ones, and
jobs are not disturbed by what would be squeezed in beside them). A rehearsal computes nothing, so all its workers
together take one slot for rehearsals. A job that runs alone waits until nothing runs, nobody overtakes it, and nobody
starts before its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from backend.lifecycle import Reason
from engine.errors import UserError
from engine.plan.job import ClusterSpec

Kind = Literal["cpu", "cuda", "rehearsal"]
MOST_REHEARSED = 64
"""Workers of a rehearsal."""
COUNTED = 20
"""So many are told their number in the queue. It changes with every job that starts, and is written each time; of
those behind, only who loses the one before it hears something new."""


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

    @property
    def torch_device(self) -> str:
        """What PyTorch calls it: slots share one device."""
        return self.id if self.kind == "cuda" else "cpu"


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Every device of the machine."""

    devices: tuple[Device, ...]

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> Inventory:
        """So many devices of each kind, of which no more is known."""
        kinds: tuple[Kind, ...] = ("cpu", "cuda", "rehearsal")
        return cls(
            devices=tuple(
                Device(id="", kind=kind, name="") for kind in kinds for _ in range(counts.get(kind, 0))
            )
        )

    def of(self, kind: Kind) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind == kind)

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

    @classmethod
    def of(cls, cluster: ClusterSpec, fidelity: str) -> Demand:
        """That of a job's specification."""
        rehearsal = fidelity == "rehearse"
        return cls(workers=cluster.workers, device=cluster.device, rehearsal=rehearsal, alone=cluster.alone)


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job that waits."""

    id: str
    name: str
    demand: Demand
    priority: int
    queued_unix_ns: int


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """Who holds a device."""

    job_id: str
    """Empty: it is no job."""
    job_name: str
    alone: bool = False
    """Nobody else starts before it has ended."""


@dataclass(frozen=True, kw_only=True)
class State:
    """All that a decision depends on."""

    queued: tuple[QueuedJob, ...]
    inventory: Inventory
    occupied: Mapping[str, Occupant]
    """Device id to who holds it; an empty id to who holds none, but is in the way of whoever runs alone."""
    paused: bool = False
    """Nobody is placed, nor refused."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Give the job these devices and start it."""

    job_id: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The job waits; `text` says at which position and for what."""

    job_id: str
    position: int
    """1: the next one of its kind of device; where the server is paused, of all."""
    reason: Reason
    text: str
    blocked_by: tuple[str, ...]
    """The jobs that hold what it needs, or the one just before it in the queue."""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """The job can never run on this inventory."""

    job_id: str
    error: UserError


Instruction = Start | Wait | Refuse


def check_demand(demand: Demand, inventory: Inventory) -> Kind:
    """The kind of device that a job gets. Raises UserError when it asks for more than the inventory has, free
    or not."""
    cpus, gpus = len(inventory.of("cpu")), len(inventory.of("cuda"))
    if demand.rehearsal:
        return _check_rehearsal(demand)
    if demand.device == "cuda" and gpus == 0:
        raise UserError("cluster.device", "cuda", "this server has no CUDA device", "Use cpu or auto")
    if demand.device != "cpu" and demand.workers <= gpus:
        return "cuda"
    if demand.device == "cuda":
        raise UserError(
            "cluster.workers",
            demand.workers,
            f"more workers than the server's {_count(gpus, 'cuda')}",
            f"Use at most {gpus}, or device cpu",
        )
    if demand.workers > cpus:
        raise UserError(
            "cluster.workers",
            demand.workers,
            f"more workers than the server's {_count(cpus, 'cpu')}",
            f"Use at most {cpus}, or start the server with TRAINYARD_CPU_DEVICES={demand.workers} or more",
        )
    return "cpu"


def _check_rehearsal(demand: Demand) -> Kind:
    if demand.workers > MOST_REHEARSED:
        raise UserError(
            "cluster.workers",
            demand.workers,
            f"a rehearsal has at most {MOST_REHEARSED} workers: each is a process with the model's gradients",
            "Use fewer",
        )
    return "rehearsal"


def decide(state: State) -> tuple[Instruction, ...]:
    """What to do with every queued job, in the order of the queue."""
    if state.paused:
        return tuple(_paused(job, position) for position, job in enumerate(_in_order(state), start=1))
    return tuple(_decide(state))


def _in_order(state: State) -> list[QueuedJob]:
    return sorted(state.queued, key=lambda j: (-j.priority, j.queued_unix_ns, j.id))


def _decide(state: State) -> Iterator[Instruction]:
    held = dict(state.occupied)
    lines: dict[Kind, list[QueuedJob]] = {"cpu": [], "cuda": [], "rehearsal": []}
    blocked: QueuedJob | None = None
    """The job in front that waits until it can be alone: nobody overtakes it, whatever he needs."""
    for job in _in_order(state):
        try:
            kind = check_demand(job.demand, state.inventory)
        except UserError as error:
            yield Refuse(job_id=job.id, error=error)
            continue
        line = lines[kind]
        free = [d for d in state.inventory.of(kind) if d.id not in held]
        needed = 1 if job.demand.rehearsal else job.demand.workers
        owner = next((occupant for occupant in held.values() if occupant.alone), None)
        if blocked is not None and not line:
            line.append(blocked)
        if line:
            yield _in_line(job, line)
        elif owner is not None or (job.demand.alone and held):
            yield _for_others(job, owner, held)
            blocked = job if job.demand.alone else blocked
        elif len(free) < needed:
            yield _for_devices(job, kind, needed, len(free), state.inventory, held)
            blocked = job if job.demand.alone else blocked
        else:
            mine = Occupant(job_id=job.id, job_name=job.name, alone=job.demand.alone)
            given = tuple(free[:needed])
            held.update({d.id: mine for d in given})
            yield Start(job_id=job.id, devices=given * (job.demand.workers // needed))
            continue
        line.append(job)


def _paused(job: QueuedJob, position: int) -> Wait:
    reason = Reason.SERVER_PAUSED
    text = f"{reason.summary} {reason.remedy}"
    return Wait(job_id=job.id, position=position, reason=reason, text=text, blocked_by=())


def _for_others(job: QueuedJob, owner: Occupant | None, held: Mapping[str, Occupant]) -> Wait:
    """Somebody runs alone, or this job wants to, and somebody runs."""
    names = {occupant.job_id: occupant.job_name for occupant in held.values()}
    if owner is not None:
        text = f"next in the queue: {owner.job_name!r} runs alone, as it asked (cluster.alone)"
    else:
        several = f"{', '.join(map(repr, names.values()))} run{'s' if len(names) == 1 else ''}"
        text = f"next in the queue: it runs alone, as it asked (cluster.alone), and {several} still"
    return Wait(
        job_id=job.id,
        position=1,
        reason=Reason.WAITING_FOR_DEVICES,
        text=text,
        blocked_by=(owner.job_id,) if owner is not None else tuple(names),
    )


def _for_devices(
    job: QueuedJob, kind: Kind, needed: int, free: int, inventory: Inventory, held: Mapping[str, Occupant]
) -> Wait:
    total = inventory.of(kind)
    holders: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for device in total:
        if occupant := held.get(device.id):
            holders.setdefault(occupant.job_id, []).append(device.id)
            names[occupant.job_id] = occupant.job_name
    who = "; ".join(
        f"{names[j]!r} holds {' and '.join(ids) if len(ids) < 4 else f'{len(ids)} of them'}"
        for j, ids in holders.items()
    )
    verb = "is" if free == 1 else "are"
    needs = f"needs {_count(needed, kind)}, {free} of {len(total)} {verb} free"
    return Wait(
        job_id=job.id,
        position=1,
        reason=Reason.WAITING_FOR_DEVICES,
        text=f"next in the queue: {needs}; {who}",
        blocked_by=tuple(holders),
    )


def _in_line(job: QueuedJob, line: list[QueuedJob]) -> Wait:
    before, position = line[-1], len(line) + 1
    why = f"priority {before.priority}" if before.priority > job.priority else "older"
    number = f"number {position} in" if position <= COUNTED else f"beyond the first {COUNTED} of"
    return Wait(
        job_id=job.id,
        position=position,
        reason=Reason.WAITING_IN_LINE,
        text=f"{number} the queue, behind {before.name!r} ({why})",
        blocked_by=(before.id,),
    )


def _count(n: int, kind: Kind) -> str:
    if kind == "rehearsal":
        return f"{n} slot{'' if n == 1 else 's'} for rehearsals"
    return f"{n} {kind.upper()} device{'' if n == 1 else 's'}"
