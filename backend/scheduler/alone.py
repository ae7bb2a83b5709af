"""A server's place among those of its database, where it is the only one: what `membership.py` does among several.

SQLite has one server, which holds its lock (`backend/services/lock.py`): whatever is in the database is its own, and
nothing has to be written to know that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import ColumnElement, true
from sqlalchemy.orm import Session

from backend.db import Database
from backend.scheduler import nodes
from backend.scheduler.decide import Demand, Inventory, Kind
from backend.scheduler.place import Place

T = TypeVar("T")


class Alone:
    """The only server of its database."""

    def __init__(self, database: Database, data_dir: Path, address: str, inventory: Inventory) -> None:
        """`address`: what people find it under. `inventory`: its devices, of which its node tells."""
        self.place = Place.of(data_dir, shared=database.shared)
        self.id: str | None = None
        """Of this life among several servers."""
        self.called = f"process {os.getpid()} at {address}"
        self.inventory = inventory
        self._database = database
        self._listeners: list[Callable[[], None]] = []

    def start(self) -> None:
        """Join. What an earlier life of this server held is this one's when this returns."""
        told = nodes.Told.of_this_machine(self.inventory)
        self._database.writer.run(
            lambda session: nodes.tell(session, self.place, self.called, told, time.time_ns())
        )
        self._tell()

    def close(self) -> None:
        """Leave: others take at once what this server held. Harmless where it never joined."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call it whenever this server has got a role or an attempt, from another server or an earlier life."""
        self._listeners.append(listener)

    @property
    def mine(self) -> ColumnElement[bool]:
        """The attempts that this server looks after."""
        return true()

    def has(self, role: str) -> bool:
        """Whether this server does it now, as far as it knows: `check` is what counts."""
        return True

    def check(self, session: Session, role: str) -> None:
        """Inside of the transaction that acts. Raises LeaseLostError where another server has the role."""

    def run_for(self, attempt_id: int, write: Callable[[Session], T]) -> T:
        """Run a transaction that acts on an attempt. Raises LeaseLostError where it is another server's."""
        return self._database.writer.run(write)

    def lives(self, session: Session) -> bool:
        """Whether this server may place jobs, inside of the transaction that does it."""
        return True

    def elsewhere(self, session: Session, demand: Demand) -> Kind | None:
        """The kind of device that a job would get at another server; None where it can be placed at none."""
        return None

    def ahead_ns(self, session: Session) -> int:
        """By how much this server's clock is ahead of the one by which all servers begin and end maintenance."""
        return 0

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
