"""The servers of one database: who lives, who looks after which attempt, and who does what only one does.

**Rule.** A server has a row with a lease, which ends LEASE_S ahead by the database's clock and is renewed every
RENEW_S. Attempts and roles name their server; they are held as long as its row stands. Whoever renews removes the rows
whose leases have lapsed, in one transaction with what follows: free roles are taken, and attempts that nobody looks
after are taken by a server that sees their processes (it has their data directory, or runs beside them in one process
namespace). All of these transactions, and those in which a server acts, go one after another (`backend/db/engine.py`),
and each that acts looks first whether what it acts on is still its own (`check`, `run_for`): a server that was stopped
for a while can write nothing more of what others have taken. It then joins anew, under another id.

What runs on a machine that no living server sees is left as it is: it may well go on there. Its job says so, nothing of
it is started again, and a server that comes back to that data directory follows it.

**Cost.** One short transaction for each server and RENEW_S, whatever the number of jobs. **Loses**: all that a server
holds lapses at once; a server whose threads hang while this one renews keeps what it holds. **Source.** Gray and
Cheriton, "Leases" (SOSP 1989); dstack's pipelines. **Deviation**: one lease for each owner in place of one for each
row; and no token is handed out with it, as whoever acts reads the row in the transaction in which it acts.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import BigInteger, ColumnElement, delete, insert, literal_column, or_, select, update
from sqlalchemy.orm import Session

from backend.db import MISSED, Database, DatabaseUnavailableError, WriterError, notify, uuid7
from backend.db.models import Attempt, Maintenance, NodeRow, Notice, Role, ServerRow
from backend.executors.attempt_files import FilesOf
from backend.executors.base import Ended
from backend.lifecycle import ACTIVE, ENDED, Reason, State
from backend.scheduler import changes, nodes, record
from backend.scheduler.alone import Alone
from backend.scheduler.decide import Demand, Inventory, Kind, check_demand
from backend.scheduler.place import kernel_of
from engine.errors import UserError

LEASE_S = 15.0
RENEW_S = 3.0
QUEUE, RACES, FIGURES, SPEED_UPS, RETENTION, WEBHOOKS = ROLES = (
    "queue",
    "races",
    "job-figures",
    "speed-ups",
    "retention",
    "webhooks",
)
"""What one server does for all. `queue`: to say why jobs wait."""
KIND = "server"
"""Of the notice that one has come or gone."""
NOW = literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS bigint)", BigInteger)
"""By the database's clock, in Unix nanoseconds."""
T = TypeVar("T")
logger = logging.getLogger(__name__)


class LeaseLostError(WriterError):
    """Another server has taken what this one would have acted on; nothing of it is stored."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What a look at the servers left."""

    roles: frozenset[str]
    adopted: int
    unasked: bool
    """There are attempts beside this server of which nobody had asked whether it reaches them."""


def end_this_server(error: UserError) -> None:
    """Another server has this one's place. Attempts that run go on."""
    logger.critical("this server ends: %s", error)
    os.kill(os.getpid(), signal.SIGTERM)


class Membership(Alone):
    """This server among the others of a PostgreSQL."""

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        address: str,
        inventory: Inventory,
        files: FilesOf,
        *,
        lost: Callable[[UserError], None] = end_this_server,
    ) -> None:
        """`inventory`: its devices. `files`: its executor's. `lost` is called where another server has its data
        directory."""
        super().__init__(database, data_dir, address, inventory)
        self.id: str = uuid7()
        """Of this life; another one after its lease was lost."""
        self._files = files
        self.lease_s, self.renew_s = LEASE_S, RENEW_S
        self._lost = lost
        self._roles = frozenset[str]()
        self._told: nodes.Told | None = None
        """What the database has of this server's node."""
        self._until = 0.0
        """Until then, on this machine's clock, nobody can have taken what is ours."""
        self._wake = threading.Event()
        self._all = False
        """Somebody has come or gone: look also for what has ended and left something to do."""
        self._over = False
        self._unlisten: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._loop, name="membership", daemon=True)

    # --- for those who act ---

    def start(self) -> None:
        self._join()
        self._unlisten = self._database.writer.listen_afar(self._heard)
        self._thread.start()

    def close(self) -> None:
        self._over = True
        unlisten, self._unlisten = self._unlisten, lambda: None
        unlisten()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._until:
            self._until, self._roles = 0.0, frozenset()
            with suppress(WriterError, DatabaseUnavailableError):  # the lease lapses
                self._database.writer.run(self._leave)

    @property
    def mine(self) -> ColumnElement[bool]:
        return Attempt.server_id == self.id

    def has(self, role: str) -> bool:
        return role in self._roles and time.monotonic() < self._until

    def check(self, session: Session, role: str) -> None:
        if session.scalar(select(Role.server_id).where(Role.name == role)) != self.id:
            raise LeaseLostError(f"another server has the role {role!r} now")

    def run_for(self, attempt_id: int, write: Callable[[Session], T]) -> T:
        def fenced(session: Session) -> T:
            if session.scalar(select(Attempt.server_id).where(Attempt.id == attempt_id)) != self.id:
                raise LeaseLostError(f"another server looks after attempt {attempt_id} now")
            return write(session)

        return self._database.writer.run(fenced)

    def lives(self, session: Session) -> bool:
        return session.get(ServerRow, self.id) is not None

    def elsewhere(self, session: Session, demand: Demand) -> Kind | None:
        others = select(NodeRow.devices).join(ServerRow, ServerRow.home == NodeRow.home)
        for devices in session.scalars(others.where(ServerRow.id != self.id)):
            with suppress(UserError):
                return check_demand(demand, Inventory(devices=tuple(map(nodes.device_of, devices))))
        return None

    def ahead_ns(self, session: Session) -> int:
        return time.time_ns() - (session.scalar(select(NOW)) or 0)

    # --- the lease ---

    def renew(self, *, everything: bool = False) -> None:
        """Stay, and take what nobody holds; join anew where others have found this server's lease lapsed."""
        begun, told = time.monotonic(), nodes.Told.of_this_machine(self.inventory)
        reached = self._reached(everything=everything)
        found = self._database.writer.run(
            lambda session: self._renewed(session, told, reached, everything=everything)
        )
        if found is None:
            logger.warning("this server's lease had lapsed: it joins anew, and others have what it held")
            self._roles = frozenset()
            self._join(again=True)
            return
        self._told = told
        self._until = begun + self.lease_s
        self._keep(found)

    def _join(self, *, again: bool = False) -> None:
        begun, self.id = time.monotonic(), uuid7()
        told = nodes.Told.of_this_machine(self.inventory)
        reached = self._reached(everything=True)

        def write(session: Session) -> _Found:
            mine = ServerRow.home == self.place.home
            if again and session.scalar(select(ServerRow.id).where(mine)) is not None:
                raise UserError(
                    "data_dir",
                    self.place.home,
                    "another server on this database has a directory with the same id, as a copy has",
                    "Remove server.id from the copy",
                )
            session.execute(
                delete(ServerRow).where(mine)
            )  # the directory is locked by us: who had it is dead
            until = NOW + self._lease_ns()
            row = insert(ServerRow).values(
                id=self.id,
                home=self.place.home,
                view=self.place.view,
                called=self.called,
                until_unix_ns=until,
            )
            session.execute(row)
            self._take_maintenance_along(session, told)
            nodes.tell(session, self.place, self.called, told, NOW)
            self._announce(session)
            return self._settle(session, reached, everything=True, remove=not again)

        try:
            found = self._database.writer.run(write)
        except UserError as error:
            self._lost(error)
            return
        self._told = told
        self._until = begun + self.lease_s
        self._keep(found)

    def _take_maintenance_along(self, session: Session, told: nodes.Told) -> None:
        """After a restart of the machine its maintenance is known by its new view, whichever of its servers is back
        first, and also where the one that has the row never is."""
        here: ColumnElement[bool] = Maintenance.home == self.place.home
        before = session.execute(
            select(NodeRow.name, NodeRow.view).where(NodeRow.home == self.place.home)
        ).one_or_none()
        if before is not None and before.name == told.name:
            kernel = kernel_of(before.view)
            lives = select(ServerRow.id).where(
                ServerRow.id != self.id, ServerRow.view.startswith(kernel), ServerRow.until_unix_ns >= NOW
            )
            if (
                session.scalar(lives.limit(1)) is None
            ):  # else that machine goes on, and the directory has moved
                here = or_(here, Maintenance.view.startswith(kernel))
        session.execute(update(Maintenance).where(here).values(view=self.place.view))

    def _reached(self, *, everything: bool) -> dict[int, bool]:
        """Attempts of other servers beside this one that may be nobody's by now, and whether their files are reached
        from here. Asked before the transaction that takes them: another machine may have to answer, and all others wait
        for that transaction."""
        living = select(ServerRow.id).where(ServerRow.until_unix_ns >= NOW)
        with self._database.read() as session:
            known = (ServerRow.id != self.id, ServerRow.until_unix_ns < NOW)
            late = session.scalar(select(ServerRow.id).where(*known).limit(1)) is not None
            beside = select(Attempt.id, Attempt.directory).where(
                Attempt.view == self.place.view,
                Attempt.home != self.place.home,
                or_(Attempt.server_id.is_(None), Attempt.server_id.not_in(living)),
                _open(everything=everything or late),
            )
            found = session.execute(beside).all()
        return {row.id: self._files(row.directory).reachable() for row in found}

    def _renewed(
        self, session: Session, told: nodes.Told, reached: Mapping[int, bool], *, everything: bool
    ) -> _Found | None:
        """None where the row is gone."""
        mine = ServerRow.id == self.id
        late = session.scalar(select(ServerRow.until_unix_ns < NOW).where(mine))
        if late is None:
            return None
        session.execute(update(ServerRow).where(mine).values(until_unix_ns=NOW + self._lease_ns()))
        if told == self._told:
            nodes.seen(session, self.place, NOW)
        else:
            nodes.tell(session, self.place, self.called, told, NOW)
        # Whoever is late itself was kept from the database, and so may the others have been: they get another RENEW_S.
        return self._settle(session, reached, everything=everything, remove=not late)

    def _settle(
        self, session: Session, reached: Mapping[int, bool], *, everything: bool, remove: bool
    ) -> _Found:
        """Remove who has lapsed, if asked to, and take what is free. `everything`: also attempts that have ended
        and left telemetry or processes, which needs a look at all of them."""
        late = (ServerRow.id != self.id, ServerRow.until_unix_ns < NOW)
        for row in session.scalars(select(ServerRow).where(*late)).all() if remove else ():
            logger.warning("the lease of the server %s has lapsed", row.called)
            session.execute(delete(ServerRow).where(ServerRow.id == row.id))
            everything = True
        held = dict(session.execute(select(Role.name, Role.server_id)).all())
        free = [name for name in ROLES if name not in held]
        session.add_all([Role(name=name, server_id=self.id) for name in free])
        roles = frozenset({*free, *(name for name, server in held.items() if server == self.id)})
        adopted, unasked = self._adopt(session, reached, everything=everything)
        return _Found(roles=roles, adopted=adopted, unasked=unasked)

    def _adopt(self, session: Session, reached: Mapping[int, bool], *, everything: bool) -> tuple[int, bool]:
        """Take the attempts that nobody looks after and that are seen from here; how many they were, and whether some
        have to be asked for first. Of the others it is said that nobody sees them."""
        living = session.execute(select(ServerRow.home, ServerRow.view)).all()
        homes, views = {home for home, _ in living}, {view for _, view in living}
        nobodys = or_(Attempt.server_id.is_(None), Attempt.server_id.not_in(select(ServerRow.id)))
        open_ = _open(everything=everything)
        adopted, unasked, unseen = 0, False, list[Attempt]()
        for attempt in session.scalars(select(Attempt).where(nobodys, open_).order_by(Attempt.id)):
            elsewhere = attempt.home in homes - {self.place.home}
            beside = attempt.view == self.place.view
            unasked |= (
                not elsewhere and beside and attempt.id not in reached and not self.place.is_own(attempt)
            )
            if not elsewhere and (self.place.is_own(attempt) or (beside and reached.get(attempt.id, False))):
                attempt.server_id, attempt.called = self.id, self.called
                _say_seen(session, attempt)
                adopted += 1
            elif not elsewhere and attempt.view not in views and attempt.state in ACTIVE:
                unseen.append(attempt)
        _say_unseen(session, unseen)
        return adopted, unasked

    def _leave(self, session: Session) -> None:
        session.execute(delete(Role).where(Role.server_id == self.id))
        session.execute(delete(ServerRow).where(ServerRow.id == self.id))
        self._announce(session)

    def _announce(self, session: Session) -> None:
        """That this one has come or goes."""
        notify(session, None, KIND, {"called": self.called})

    def _lease_ns(self) -> int:
        return round(self.lease_s * 1e9)

    # --- the thread ---

    def _heard(self, notices: list[Notice]) -> None:
        if any(notice.kind in {KIND, MISSED} for notice in notices):
            self._all = True
            self._wake.set()

    def _loop(self) -> None:
        while True:
            self._wake.wait(self.renew_s)
            self._wake.clear()
            if self._over:
                return
            everything, self._all = self._all, False
            try:
                self.renew(everything=everything)
            except Exception as error:  # it lapses where this goes on for too long, and is made anew then
                self._all |= everything
                logger.warning("this server's lease could not be renewed: %s", error)

    def _keep(self, found: _Found) -> None:
        new, self._roles = found.roles - self._roles, found.roles
        self._all |= found.unasked
        if new or found.adopted:
            self._tell()


def _open(*, everything: bool) -> ColumnElement[bool]:
    """Attempts that run, or (`everything`) have ended and left something to do."""
    runs = Attempt.state.in_(ACTIVE)
    return or_(runs, Attempt.state.in_(ENDED) & Attempt.sealed.is_(False)) if everything else runs


def _say_seen(session: Session, attempt: Attempt) -> None:
    job = attempt.job
    if attempt.state in ACTIVE and job.reason == Reason.SERVER_AWAY:
        job.reason = job.message = None
        record.tell(session, job)


def _say_unseen(session: Session, attempts: Sequence[Attempt]) -> None:
    """Nobody sees these: one that was cancelled ends, of the others it is said."""
    for attempt in attempts:
        job, reason = attempt.job, Reason.SERVER_AWAY
        where = f"its server ({attempt.called or 'of another machine'}) is away"
        if attempt.state == State.STOPPING_CANCELLED:
            text = f"cancelled while {where}: what runs there ends when a server comes back to its directory"
            end = Ended(
                status="cancelled", reason=Reason.CANCELLED, message=text, ended_unix_ns=time.time_ns()
            )
            changes.close(session, attempt.id, end)
            job.message = attempt.message = text
        elif attempt.state in {State.PLACING, State.STARTING, State.RUNNING} and job.reason != reason:
            job.reason, job.message = reason, f"{where}. {reason.remedy}"
            record.tell(session, job)


def member(database: Database, data_dir: Path, address: str, inventory: Inventory, files: FilesOf) -> Alone:
    """This server's place among those of a database."""
    if not database.shared:
        return Alone(database, data_dir, address, inventory)
    return Membership(database, data_dir, address, inventory, files)
