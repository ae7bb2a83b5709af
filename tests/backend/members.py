"""Servers of one database, each with a place that the test says, which renew their leases when it says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from backend.db import Database
from backend.db.models import ServerRow
from backend.executors.local_files import LocalFiles
from backend.scheduler.decide import Inventory
from backend.scheduler.membership import Membership
from backend.scheduler.place import Place
from engine.errors import UserError

NONE = Inventory(devices=())


def joined(*given: Any, **more: Any) -> Membership:
    """A member that is `made` so, and has joined. It renews only when the test says so."""
    member = made(*given, **more)
    member._join()
    return member


def made(
    database: Database,
    tmp_path: Path,
    home: str,
    view: str = "kernel processes",
    lost: Callable[[UserError], None] | None = None,
) -> Membership:
    (tmp_path / home / "jobs").mkdir(parents=True, exist_ok=True)
    ends = lost or (lambda error: pytest.fail(str(error)))
    member = Membership(database, tmp_path / home, f"http://{home}", NONE, LocalFiles, lost=ends)
    member.place = Place(home=home, view=view)
    return member


def lapse(database: Database, member: Membership) -> None:
    """Its lease ends now."""
    database.writer.run(
        lambda session: session.execute(
            update(ServerRow).where(ServerRow.id == member.id).values(until_unix_ns=1)
        )
    )
