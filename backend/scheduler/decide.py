"""Scheduling decisions: state in, instructions out. No clock, no database, no processes.

Rules: the whole gang gets its devices at once or none; higher priority first, then the older job; nobody
overtakes a job that waits for the same kind of device (so a wide job cannot be starved by narrow ones, and
jobs are not disturbed by what would be squeezed in beside them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from backend.lifecycle import Reason
from engine.errors import UserError
from engine.plan.job import ClusterSpec

Kind = Literal["cpu", "cuda"]
COUNTED = 20
"""So many are told their number in the queue. It changes with every job that starts, and is written each time; of
those behind, only who loses the one before it hears something new."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One place for one worker."""

    id: str
    """`cpu:0`, `cuda:1`."""
    kind: Kind
    name: str
    """What people call it."""
    model: str = ""
    """What was built: equal texts are equally fast. Empty: the machine does not say."""
    memory_bytes: int | None = None
    """Its own memory; None for a CPU slot, which shares the machine's."""

    @property
    def torch_device(self) -> str:
        """What PyTorch calls it: CPU slots share one device."""
        return "cpu" if self.kind == "cpu" else self.id


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Every device of the machine."""

    devices: tuple[Device, ...]

    def of(self, kind: Kind) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind == kind)

    def device(self, id_: str) -> Device:
        """Raises KeyError for an id that is not in the inventory."""
        return next(d for d in self.devices if d.id == id_)


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job that waits."""

    id: str
    name: str
    cluster: ClusterSpec
    """What it asks for: one device per worker."""
    priority: int
    queued_unix_ns: int


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """Who holds a device."""

    job_id: str
    job_name: str


@dataclass(frozen=True, kw_only=True)
class State:
    """All that a decision depends on."""

    queued: tuple[QueuedJob, ...]
    inventory: Inventory
    occupied: Mapping[str, Occupant]
    """Device id to who holds it."""
    paused: bool = False
    """Nobody is placed, nor refused."""


@dataclass(frozen=True, kw_only=True)
class Place:
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


Instruction = Place | Wait | Refuse


def check_demand(cluster: ClusterSpec, inventory: Inventory) -> Kind:
    """The kind of device that a job gets. Raises UserError when it asks for more than the inventory has, free
    or not."""
    cpus, gpus = len(inventory.of("cpu")), len(inventory.of("cuda"))
    if cluster.device == "cuda" and gpus == 0:
        raise UserError("cluster.device", "cuda", "this server has no CUDA device", "Use cpu or auto")
    if cluster.device != "cpu" and cluster.workers <= gpus:
        return "cuda"
    if cluster.device == "cuda":
        raise UserError(
            "cluster.workers",
            cluster.workers,
            f"more workers than the server's {_count(gpus, 'cuda')}",
            f"Use at most {gpus}, or device cpu",
        )
    if cluster.workers > cpus:
        raise UserError(
            "cluster.workers",
            cluster.workers,
            f"more workers than the server's {_count(cpus, 'cpu')}",
            f"Use at most {cpus}, or start the server with TRAINYARD_CPU_DEVICES={cluster.workers} or more",
        )
    return "cpu"


def decide(state: State) -> tuple[Instruction, ...]:
    """What to do with every queued job, in the order of the queue."""
    if state.paused:
        return tuple(_paused(job, position) for position, job in enumerate(_in_order(state), start=1))
    return tuple(_decide(state))


def _in_order(state: State) -> list[QueuedJob]:
    return sorted(state.queued, key=lambda j: (-j.priority, j.queued_unix_ns, j.id))


def _decide(state: State) -> Iterator[Instruction]:
    held = dict(state.occupied)
    waiting: dict[Kind, list[QueuedJob]] = {"cpu": [], "cuda": []}
    for job in _in_order(state):
        try:
            kind = check_demand(job.cluster, state.inventory)
        except UserError as error:
            yield Refuse(job_id=job.id, error=error)
            continue
        line = waiting[kind]
        free = [d for d in state.inventory.of(kind) if d.id not in held]
        if line:
            yield _in_line(job, line)
        elif len(free) < job.cluster.workers:
            yield _for_devices(job, kind, len(free), state.inventory, held)
        else:
            given = tuple(free[: job.cluster.workers])
            held.update({d.id: Occupant(job_id=job.id, job_name=job.name) for d in given})
            yield Place(job_id=job.id, devices=given)
            continue
        line.append(job)


def _paused(job: QueuedJob, position: int) -> Wait:
    reason = Reason.SERVER_PAUSED
    text = f"{reason.summary} {reason.remedy}"
    return Wait(job_id=job.id, position=position, reason=reason, text=text, blocked_by=())


def _for_devices(
    job: QueuedJob, kind: Kind, free: int, inventory: Inventory, held: Mapping[str, Occupant]
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
    needs = f"needs {_count(job.cluster.workers, kind)}, {free} of {len(total)} {verb} free"
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
    return f"{n} {kind.upper()} device{'' if n == 1 else 's'}"
