"""The machine's devices, and who is on them."""

from __future__ import annotations

from backend.db import Database
from backend.scheduler import decide, snapshot
from backend.schemas.catalogue import Device
from engine.plan.job import JobSpec


class Inventory:
    """What the scheduler has to give, as the API shows it."""

    def __init__(self, database: Database, inventory: decide.Inventory) -> None:
        self._database = database
        self._inventory = inventory

    def check(self, spec: JobSpec) -> None:
        """Raises UserError for a job that could never be placed here."""
        decide.check_demand(decide.Demand.of(spec.cluster, spec.fidelity), self._inventory)

    def devices(self) -> list[Device]:
        """Every device and the job that occupies it."""
        with self._database.read() as session:
            held = snapshot.occupied(session)
        return [
            Device(
                name=device.id,
                kind=device.kind,
                description=device.name,
                job_id=held[device.id].job_id if device.id in held else None,
                job_name=held[device.id].job_name if device.id in held else None,
            )
            for device in self._inventory.devices
        ]
