"""The devices during one look at the queue: who holds which, and what a job would get of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backend.scheduler.gang import choose
from backend.scheduler.maintenance import usable

if TYPE_CHECKING:
    from backend.scheduler.decide import Device, Kind, Occupant, QueuedJob, State


class Floor:
    """What is started is held from then on; who is asked to make room is leaving."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.held = dict(state.occupied)
        """Device id, also of other inventories, to who holds it."""
        self.runs: dict[str, Occupant] = {}
        """By job."""
        self.counts = dict(state.elsewhere)
        """(project, kind) to how many devices it holds."""
        known = {device.id: device for device in state.inventory.devices}
        self._devices: dict[str, list[Device]] = {}
        self.free: dict[str, list[Device]] = {}
        """By kind."""
        for id_, occupant in self.held.items():
            self._add(occupant, [known[id_]] if id_ in known else [])
        for device in state.inventory.devices:
            self.free.setdefault(device.kind, [])
            if device.id not in self.held:
                self.free[device.kind].append(device)
        self._known = frozenset(known)

    def fits(self, job: QueuedJob, kind: Kind, gone: Sequence[str], at_ns: int) -> list[Device] | None:
        """Which devices the job gets once those have ended; those that come free last, first."""
        ended = set(gone)
        for id_, run in self.runs.items():
            if (run.alone or job.demand.alone) and id_ not in ended:
                return None
        free = self.free[kind]
        if gone:
            freed = [d for id_ in reversed(gone) for d in self._devices[id_] if d.kind == kind]
            free = [*freed, *free]
        return self.choose(job, kind, free, at_ns)

    def choose(self, job: QueuedJob, kind: Kind, free: list[Device], at_ns: int) -> list[Device] | None:
        needed, drained = job.demand.devices, self._state.drained
        if drained:
            free = [device for device in free if usable(drained, device.id, at_ns, job.duration_ns)]
        if job.beside:
            beside = [device for device in free if device.id in job.beside]
            if kind == "cuda" and len(beside) < min(needed, len(self.beside(job, at_ns))):
                return None
            free = [*beside, *(device for device in free if device.id not in job.beside)]
        if self._state.inventory.plain[kind] or len(free) < needed:
            return free[:needed] if len(free) >= needed else None
        inventory = self._state.inventory
        every = [d for d in inventory.of(kind) if usable(drained, d.id, at_ns, job.duration_ns)]
        return choose(free, job.demand, every, spans=inventory.spans, keeps_order=bool(job.beside))

    def beside(self, job: QueuedJob, at_ns: int) -> list[str]:
        """The devices of its race that are still in use."""
        drained = self._state.drained
        return [d for d in job.beside if d in self._known and usable(drained, d, at_ns, job.duration_ns)]

    def _add(self, occupant: Occupant, devices: Sequence[Device]) -> None:
        """It runs, on these too."""
        self.runs[occupant.job_id] = occupant
        self._devices.setdefault(occupant.job_id, []).extend(devices)
        for device in devices:
            whose = occupant.project, device.kind
            self.counts[whose] = self.counts.get(whose, 0) + 1

    def give(self, occupant: Occupant, devices: Sequence[Device]) -> None:
        """A job starts on free devices."""
        taken = {device.id for device in devices}
        for kind in {device.kind for device in devices}:
            self.free[kind] = [device for device in self.free[kind] if device.id not in taken]
        self.held.update(dict.fromkeys(taken, occupant))
        self._add(occupant, devices)

    def to_empty(self) -> list[str]:
        """Ids of the jobs that have to leave drained devices now."""
        begun = {id_ for id_, at_ns in self._state.emptied.items() if at_ns <= self._state.now_unix_ns}
        return [
            id_
            for id_, run in self.runs.items()
            if run.saves and not run.leaving and any(d.id in begun for d in self._devices[id_])
        ]

    def ask(self, job_id: str) -> None:
        """A job is to make room."""
        self.runs[job_id] = replace(self.runs[job_id], leaving=True)

    def owner(self) -> Occupant | None:
        """Who runs alone."""
        return next((run for run in self.runs.values() if run.alone), None)

    def size(self, job_id: str, kind: Kind) -> int:
        """How many devices of a kind come free with a job."""
        return sum(device.kind == kind for device in self._devices[job_id])
