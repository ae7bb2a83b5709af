"""A server's inner parts in this process: database, scheduler, supervisors of small programs, telemetry's address."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.chaos.ports import reserve
from backend.db import Database, uuid7
from backend.db.models import Attempt, Job
from backend.executors import process
from backend.lifecycle import ENDED
from backend.scheduler import record
from backend.scheduler.decide import Device, Inventory
from backend.scheduler.loop import Scheduler
from backend.scheduler.membership import member
from engine.plan.serde import to_plain
from tests.backend.executor_attempts import MODEL, PLAN, job, programs_executor, until
from tests.backend.ingest_server import IngestServer


class House:
    """A server's inner parts over one data directory; `restart` is its death and a new life."""

    def __init__(self, directory: Path, database_url: str) -> None:
        self.directory = directory
        self._database_url = database_url
        self._reserved = reserve()
        self.port = int(self._reserved.getsockname()[1])
        """Of its address for telemetry, the same in every life; 0: any other."""
        self.open(2)

    def open(self, cpus: int, *, paused: bool = False) -> None:
        self.database = Database(self._database_url)
        self.ingest = IngestServer(self.database, self.port)
        self.port = self.ingest.port
        inventory = Inventory(
            devices=tuple(Device(id=f"cpu:{i}", kind="cpu", name=f"slot {i}") for i in range(cpus))
        )
        executor = programs_executor()
        self.membership = member(self.database, self.directory, self.ingest.url, inventory, executor.files)
        self.scheduler = Scheduler(
            database=self.database,
            executor=executor,
            inventory=inventory,
            membership=self.membership,
            data_dir=self.directory,
            url=self.ingest.url,
            paused=paused,
        )

    def close(self) -> None:
        self.scheduler.close()
        self.ingest.close()
        self.database.close()

    def leave(self) -> None:
        """Its last death."""
        self.close()
        self._reserved.close()

    def restart(self, cpus: int = 2, *, paused: bool = False) -> None:
        self.close()
        self.open(cpus, paused=paused)
        self.scheduler.start()

    def submit(self, name: str, workers: int = 2, priority: int = 0, **fields: Any) -> str:
        def write(session: Session) -> str:
            row = Job(
                id=uuid7(),
                name=name,
                spec=to_plain(job(name, workers, **fields)),
                plan=to_plain(PLAN),
                description=MODEL.to_dict(),
                priority=priority,
                created_unix_ns=time.time_ns(),
            )
            record.submitted(session, row)
            return row.id

        job_id = self.database.writer.run(write)
        self.scheduler.wake()
        return job_id

    def cancel(self, job_id: str) -> bool:
        changed = self.database.writer.run(lambda s: record.cancel(s, s.get_one(Job, job_id)))
        self.scheduler.wake()
        return changed

    def job(self, job_id: str) -> Job:
        with self.database.read() as session:
            return session.get_one(Job, job_id)

    def attempts(self, job_id: str) -> list[Attempt]:
        with self.database.read() as session:
            return list(session.scalars(select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.id)))

    def story(self, job_id: str) -> list[str]:
        with self.database.read() as session:
            return list(record.story(session, session.get_one(Job, job_id)))

    def reaches(self, job_id: str, *states: str) -> Job:
        return until(
            lambda: found if (found := self.job(job_id)).state in states else None,
            f"{self.job(job_id).name!r} is {' or '.join(states)}",
        )

    def ends(self, job_id: str) -> Job:
        return self.reaches(job_id, *ENDED)

    def living(self, job_id: str) -> list[process.Identity]:
        return [p for a in self.attempts(job_id) for p in process.marked(Path(a.directory))]
