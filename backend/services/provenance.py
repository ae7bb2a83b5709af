"""Where a race's figures come from: program, machine and devices."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db import models
from backend.services.race_report import Provenance
from backend.version import program_version
from engine.benchmarks.harness.machine import hardware


def of_race(session: Session, race_id: str, commit: str) -> Provenance:
    """That of a race and of its report, now; `commit`: what this server runs."""
    machine = hardware()
    return Provenance(
        version=program_version(),
        commit=commit,
        cpu=str(machine["cpu"]),
        cores=int(machine["cores"]),
        memory_bytes=int(machine["memory_bytes"]),
        kernel=str(machine["kernel"]),
        python=str(machine["python"]),
        torch=str(machine["torch"]),
        devices=_devices(session, race_id),
        written=datetime.now(UTC),
    )


def _devices(session: Session, race_id: str) -> tuple[str, ...]:
    """What the race's jobs were given: `4 x cpu (Intel Xeon)`, each once."""
    run, attempt = models.RaceRun, models.Attempt
    query = select(attempt.devices, attempt.device_models).join(run, run.job_id == attempt.job_id)
    found = set()
    for devices, names in session.execute(query.where(run.race_id == race_id)):
        kinds = [device.partition(":")[0] for device in devices]
        models_ = names if names and len(names) == len(devices) else [""] * len(devices)
        for (kind, model), count in Counter(zip(kinds, models_, strict=True)).items():
            found.add(f"{count} x {kind}" + (f" ({model})" if model else ""))
    return tuple(sorted(found))
