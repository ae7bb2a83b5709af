"""What projects hold now, and have used before, as the database has it: over all servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job
from backend.lifecycle import ACTIVE
from backend.scheduler.decide import Inventory
from backend.scheduler.fair_share import HALF_LIFE_S, Held, Ledger
from backend.scheduler.place import Place

HALF_LIVES = 7
"""What ended longer ago counts less than a hundredth, and is not looked at."""
LATE_NS = 60 * 10**9
"""So much later than it ended may an attempt's end be seen: other servers have other clocks."""


class Usage:
    """It is looked at often, so what has ended is read once. For one thread at a time."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._seen_unix_ns: int | None = None
        self._late: dict[int, int] = {}
        """When those attempts ended that may be read again."""

    def used(
        self, session: Session, ends: Mapping[str, int | None], now_unix_ns: int
    ) -> dict[tuple[str, str], float]:
        """(project, kind of device) to the device seconds that count now; a job without a project counts for the
        project with an empty name. `ends`: when jobs that run are expected to end."""
        since = self._seen_unix_ns
        if since is None:
            since = now_unix_ns - round(HALF_LIVES * HALF_LIFE_S * 1e9)
        query = select(
            Attempt.id, Attempt.devices, Attempt.created_unix_ns, Attempt.ended_unix_ns, Job.project
        )
        ended = query.join(Job).where(Attempt.ended_unix_ns > since - LATE_NS).order_by(Attempt.ended_unix_ns)
        newest = since
        for row in session.execute(ended):
            end_ns: int = row.ended_unix_ns
            newest = max(newest, end_ns)
            if row.id not in self._late:
                self._late[row.id] = end_ns
                for held in _held(row.project, row.devices, row.created_unix_ns, None):
                    self._ledger.ended(held, end_ns)
        newest = min(newest, now_unix_ns)  # a clock that ran ahead must not hide what ends until then
        self._seen_unix_ns = newest
        self._late = {id_: end for id_, end in self._late.items() if end > newest - LATE_NS}
        running = select(Job.id, Job.project, Attempt.devices, Attempt.created_unix_ns).join(Job)
        now = [
            held
            for job_id, project, devices, start_ns in session.execute(
                running.where(Attempt.state.in_(ACTIVE))
            )
            for held in _held(project, devices, start_ns, ends.get(job_id))
        ]
        return self._ledger.used(now, now_unix_ns)

    def elsewhere(self, session: Session, place: Place, inventory: Inventory) -> dict[tuple[str, str], int]:
        """(project, kind) to the devices that it holds now and that are not in this inventory."""
        known = {device.id for device in inventory.devices}
        found: dict[tuple[str, str], int] = {}
        query = select(Job.project, Attempt.home, Attempt.view, Attempt.devices).join(Job)
        for project, home, view, devices in session.execute(query.where(Attempt.state.in_(ACTIVE))):
            for device in dict.fromkeys(devices):
                if place.device(home, view, device) not in known:
                    whose = project or "", _kind(device)
                    found[whose] = found.get(whose, 0) + 1
        return found


def holds(session: Session, project: str, kind: str) -> int:
    """How many devices of a kind a project holds now, at all servers."""
    query = select(Attempt.devices).join(Job).where(Job.project == project, Attempt.state.in_(ACTIVE))
    return sum(_kind(id_) == kind for devices in session.scalars(query) for id_ in set(devices))


def _held(project: str | None, devices: Iterable[str], start_ns: int, ends_ns: int | None) -> Iterable[Held]:
    """What an attempt holds, by kind: all workers of a rehearsal share one slot."""
    kinds: dict[str, int] = {}
    for device in dict.fromkeys(devices):
        kinds[_kind(device)] = kinds.get(_kind(device), 0) + 1
    for kind, many in kinds.items():
        yield Held(project=project or "", kind=kind, devices=many, start_ns=start_ns, ends_ns=ends_ns)


def _kind(device: str) -> str:
    """`cuda` of `cuda:1`."""
    return device.partition(":")[0]
