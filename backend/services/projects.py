"""Projects: made, given another quota or weight, removed."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Job, Project
from backend.lifecycle import ENDED, State
from backend.schemas import projects as schema
from backend.services.errors import Conflict, NotFound
from backend.services.inventory import Inventory


class Projects:
    """Those of one database."""

    def __init__(
        self, database: Database, inventory: Inventory, *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed` wakes the scheduler: other jobs may have their turns."""
        self._database = database
        self._inventory = inventory
        self._changed = changed

    def all(self) -> list[schema.ProjectView]:
        """By name."""
        used, held = self._inventory.usage()
        waits = select(Job.project, func.count()).where(Job.state == State.QUEUED).group_by(Job.project)
        with self._database.read() as session:
            rows = session.scalars(select(Project).order_by(Project.name)).all()
            waiting = dict(session.execute(waits).all())
        return [
            schema.ProjectView(
                name=row.name,
                weight=row.weight,
                cpu=row.cpu,
                cuda=row.cuda,
                rehearsal=row.rehearsal,
                held={kind: many for (name, kind), many in held.items() if name == row.name},
                used_s={kind: seconds for (name, kind), seconds in used.items() if name == row.name},
                waiting=waiting.get(row.name, 0),
            )
            for row in rows
        ]

    def put(self, name: str, asked: schema.ProjectRequest) -> schema.ProjectView:
        """Make it, or change it. Jobs that run stay, also where the quota is smaller then."""

        def write(session: Session) -> None:
            row = session.get(Project, name)
            if row is None:
                row = Project(name=name, created_unix_ns=time.time_ns())
                session.add(row)
            row.weight, row.cpu, row.cuda, row.rehearsal = (
                asked.weight,
                asked.cpu,
                asked.cuda,
                asked.rehearsal,
            )

        self._database.writer.run(write)
        self._changed()
        return next(project for project in self.all() if project.name == name)

    def remove(self, name: str) -> None:
        """What its jobs used stays under its name. Raises NotFound, and Conflict while jobs of it wait or run."""

        def write(session: Session) -> None:
            row = session.get(Project, name)
            if row is None:
                raise NotFound(f"project = {name!r}: no such project. GET /api/v1/projects lists them")
            theirs = select(func.count()).where(Job.project == name, Job.state.not_in(ENDED))
            if many := session.scalar(theirs):
                rule = f"{many} of its jobs wait or run"
                raise Conflict(f"project {name} cannot be removed: {rule}. Cancel them, or let them end")
            session.delete(row)

        self._database.writer.run(write)
        self._changed()
