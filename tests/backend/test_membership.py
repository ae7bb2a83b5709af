"""Servers of one PostgreSQL: leases, what follows when one lapses, and who may act."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from backend.db import MISSED, Database, notify, uuid7
from backend.db.models import Attempt, Job, Maintenance, NodeRow, Notice, Role, ServerRow
from backend.lifecycle import Reason
from backend.postgres import Cluster
from backend.scheduler import record, snapshot
from backend.scheduler.membership import KIND, RACES, ROLES, LeaseLostError, Membership
from engine.errors import UserError
from tests.backend.executor_attempts import DEADLINE_S, until
from tests.backend.members import joined, lapse, made

THREADS, TIMES = 4, 25


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.new_schema()


@pytest.fixture
def open_one(url: str) -> Iterator[Callable[[], Database]]:
    """Opens the database once more, as another server does."""
    opened: list[Database] = []

    def make() -> Database:
        opened.append(Database(url))
        return opened[-1]

    yield make
    for database in opened:
        database.close()


def running(tmp_path: Path, database: Database, member: Membership, device: str = "cpu:0") -> int:
    """A job that runs at `member`; its attempt."""

    def write(session: Session) -> int:
        job = Job(
            id=uuid7(), name=member.place.home, spec={"cluster": {}}, state="running", created_unix_ns=1
        )
        attempt = Attempt(
            job=job,
            number=1,
            state="running",
            parties=[],
            token_sha256="",
            directory=str(tmp_path / member.place.home / "jobs" / job.id / "1"),
            devices=[device],
            created_unix_ns=1,
            server_id=member.id,
            home=member.place.home,
            view=member.place.view,
            called=member.called,
        )
        session.add(attempt)
        session.flush()
        return attempt.id

    return database.writer.run(write)


def attempt_of(database: Database, attempt: int) -> tuple[Attempt, Job]:
    with database.read() as session:
        found = session.get_one(Attempt, attempt)
        return found, found.job


# --- leases ---


def test_the_first_does_what_one_does_for_all_until_its_lease_lapses(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    databases = open_one(), open_one()
    first, second = (joined(d, tmp_path, h) for d, h in zip(databases, "ab", strict=True))
    assert [first.has(role) for role in ROLES] == [True] * len(ROLES)
    second.renew()
    assert [second.has(role) for role in ROLES] == [False] * len(ROLES)
    got: list[bool] = []
    second.listen(lambda: got.append(True))
    lapse(databases[1], first)
    second.renew()
    assert ([second.has(role) for role in ROLES], got) == ([True] * len(ROLES), [True])
    databases[1].writer.run(partial(second.check, role=RACES))
    with pytest.raises(LeaseLostError, match="another server has the role 'races' now"):
        databases[0].writer.run(partial(first.check, role=RACES))
    before = first.id
    first.renew()
    assert (first.id != before, first.has(RACES)) == (True, False), "it joins anew, and holds nothing"
    with databases[0].read() as session:
        assert set(session.scalars(select(ServerRow.id))) == {first.id, second.id}
        assert set(session.scalars(select(Role.server_id))) == {second.id}


def test_whoever_was_kept_from_the_database_itself_gives_the_others_time(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    """After an outage all leases have lapsed, and whoever comes first would take everything."""
    database, other = open_one(), open_one()
    first, second = joined(other, tmp_path, "a"), joined(database, tmp_path, "b")
    before = first.id
    for member in (first, second):
        lapse(database, member)
    second.renew()
    first.renew()
    assert (first.id, first.has(RACES)) == (before, True)
    lapse(database, first)
    second.renew()
    assert second.has(RACES), "the second time nothing kept it"


def test_who_leaves_is_missed_at_once(tmp_path: Path, open_one: Callable[[], Database]) -> None:
    databases = open_one(), open_one()
    first = joined(databases[0], tmp_path, "a")
    second = made(databases[1], tmp_path, "b")
    second.renew_s = second.lease_s = 600.0
    second.start()
    assert not second.has(RACES)
    first.close()
    until(lambda: second.has(RACES), "the other one hears of it, and does what the first did")
    second.close()
    with databases[0].read() as session:
        assert session.scalars(select(ServerRow)).all() == []


def test_an_own_lease_counts_no_longer_than_it_lasts_on_the_own_clock(
    tmp_path: Path, open_one: Callable[[], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that cannot reach the database does not know who has what."""
    member = made(database := open_one(), tmp_path, "a")
    member.lease_s = 0.0
    member._join()
    assert not member.has(RACES)
    monkeypatch.setattr(time, "time_ns", lambda: round((time.time() + 3_600) * 1e9))
    with database.read() as session:
        assert abs(member.ahead_ns(session) / 1e9 - 3_600) < 600, (
            "of the database's, by which maintenance ends"
        )


def test_whoever_restarts_takes_its_own_place_at_once(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database, other = open_one(), open_one()
    said: list[UserError] = []
    first = joined(other, tmp_path, "a", lost=said.append)
    attempt = running(tmp_path, other, first)
    common = {"called": "a", "begins_unix_ns": 1, "makes_room": False, "created_unix_ns": 1}
    row = Maintenance(home="a", view="the kernel before", **common)
    other.writer.run(lambda session: session.add(row))
    again = joined(database, tmp_path, "a")
    with database.read() as session:
        assert session.scalar(select(Maintenance.view)) == again.place.view, "its neighbours see it"
        node = session.scalars(select(NodeRow)).one()
        assert (node.home, node.view, node.called) == ("a", again.place.view, again.called)
        seen = node.seen_unix_ns
    again.renew()
    with database.read() as session:
        assert session.scalars(select(NodeRow.seen_unix_ns)).one() > seen
    assert attempt_of(database, attempt)[0].server_id == again.id
    assert again.has(RACES)
    first.renew()  # it lives: its directory was copied
    assert "another server on this database has a directory with the same id" in str(said[0])


def test_after_a_restart_of_the_machine_its_maintenance_is_known_to_whoever_is_back_first(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database = open_one()
    first = joined(database, tmp_path, "a", "kernel x")
    joined(database, tmp_path, "b", "kernel y")
    common = {"called": "a", "begins_unix_ns": 1, "makes_room": False, "created_unix_ns": 1}
    row = Maintenance(home="a", view=first.place.view, node="here", **common)
    database.writer.run(lambda session: session.add(row))

    def known(view: str) -> bool:
        again = joined(database, tmp_path, "b", view)
        with database.read() as session:
            here = select(Maintenance).where(again.place.concerns(Maintenance))
            return bool(session.scalars(here).all())

    assert (known("moved y"), known("kernel y")) == (False, True), (
        "that machine goes on, and has the other server"
    )
    lapse(database, first)
    assert known("another y"), "the machine was restarted, and the other server is not back"


# --- attempts ---


def test_attempts_of_a_lapsed_server_go_to_one_that_sees_them(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database, other = open_one(), open_one()
    first = joined(other, tmp_path, "a")
    attempt = running(tmp_path, other, first)
    second = joined(database, tmp_path, "b")
    assert attempt_of(database, attempt)[0].server_id == first.id
    lapse(database, first)
    second.renew()
    found, job = attempt_of(database, attempt)
    assert (found.server_id, found.home, found.called) == (second.id, "a", second.called)
    assert (job.state, job.reason) == ("running", None)
    with pytest.raises(LeaseLostError, match=f"another server looks after attempt {attempt} now"):
        first.run_for(attempt, lambda session: notify(session, job.id, "job", {}))
    with database.read() as session:
        assert session.scalars(select(Notice).where(Notice.kind == "job")).all() == [], (
            "nothing of it is stored"
        )
    first.renew()
    assert attempt_of(database, attempt)[0].server_id == second.id, "it is not taken back"


def test_what_nobody_sees_is_left_as_it_is_and_says_so(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database, other = open_one(), open_one()
    first = joined(other, tmp_path, "a")
    goes_on, cancelled = (running(tmp_path, other, first, f"cpu:{n}") for n in range(2))
    second = joined(database, tmp_path, "b", "another kernel")
    lapse(database, first)
    second.renew()
    found, job = attempt_of(database, goes_on)
    assert (found.state, found.reason, found.server_id) == ("running", None, first.id)
    assert (job.state, job.reason, job.revision) == ("running", Reason.SERVER_AWAY, 1)
    assert job.message == f"its server ({first.called}) is away. {Reason.SERVER_AWAY.remedy}"
    second.renew()
    assert attempt_of(database, goes_on)[1].revision == 1, "once"

    database.writer.run(lambda s: record.cancel(s, s.get_one(Attempt, cancelled).job))
    second.renew()
    found, job = attempt_of(database, cancelled)
    assert (job.state, job.reason) == ("cancelled", Reason.CANCELLED)
    assert str(job.message).startswith(
        f"cancelled while its server ({first.called}) is away: what runs there ends"
    )

    back = joined(other, tmp_path, "a")
    found, job = attempt_of(database, goes_on)
    assert (found.server_id, job.state, job.reason, job.message) == (back.id, "running", None, None)
    assert attempt_of(database, cancelled)[0].server_id == back.id, "to end what runs of it still"


def test_a_server_beside_the_lapsed_one_takes_nothing_that_it_cannot_read(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database, other = open_one(), open_one()
    first = joined(other, tmp_path, "a")
    attempt = running(tmp_path, other, first)
    (tmp_path / "a" / "jobs").rename(tmp_path / "elsewhere")
    second = joined(database, tmp_path, "b")
    lapse(database, first)
    second.renew()
    assert attempt_of(database, attempt)[0].server_id == first.id


# --- devices ---


def test_slots_are_a_servers_own_and_gpus_the_machines(
    tmp_path: Path, open_one: Callable[[], Database]
) -> None:
    database = open_one()
    members = [
        joined(database, tmp_path, home, view)
        for home, view in (("a", "kernel x"), ("b", "kernel y"), ("c", "another z"))
    ]
    for member, device in zip(members, ("cpu:0", "cuda:0", "cuda:1"), strict=True):
        running(tmp_path, database, member, device)
    with database.read() as session:
        held = [set(snapshot.occupied(session, member.place)) for member in members]
    assert held == [{"cpu:0", "cuda:0"}, {"cpu:0 of a", "cuda:0"}, {"cuda:1"}]


# --- writers and what they hear ---


def test_writers_of_several_servers_take_turns(open_one: Callable[[], Database]) -> None:
    """Else one reads a row that the other is about to change, and ids of notices are seen out of order."""
    databases = [open_one() for _ in range(THREADS)]
    job = Job(id=uuid7(), name="a", spec={}, state="queued", created_unix_ns=1)
    databases[0].writer.run(lambda session: session.add(job))
    seen: list[int] = []
    over = threading.Event()

    def write(session: Session) -> None:
        row = session.get_one(Job, job.id)
        row.revision += 1
        notify(session, job.id, "job", {})

    def repeat(database: Database) -> None:
        for _ in range(TIMES):
            database.writer.run(write)

    def watch() -> None:
        """As whoever goes on from the newest id that it has seen."""
        ended = False
        while not ended:
            ended = over.is_set()
            with databases[0].read() as session:
                since = seen[-1] if seen else 0
                seen.extend(session.scalars(select(Notice.id).where(Notice.id > since).order_by(Notice.id)))

    watcher = threading.Thread(target=watch, daemon=True)
    writers = [threading.Thread(target=repeat, args=(database,), daemon=True) for database in databases]
    for thread in (watcher, *writers):
        thread.start()
    for thread in writers:
        thread.join(DEADLINE_S)
    over.set()
    watcher.join(DEADLINE_S)
    with databases[0].read() as session:
        assert session.get_one(Job, job.id).revision == THREADS * TIMES
        assert len(set(seen) | set(session.scalars(select(Notice.id)))) == len(seen) == THREADS * TIMES


def test_what_one_server_commits_the_others_hear(open_one: Callable[[], Database]) -> None:
    first, second = open_one(), open_one()
    heard: dict[str, list[tuple[str, int]]] = {"own": [], "all": [], "afar": []}

    def note(where: str) -> Callable[[list[Notice]], None]:
        return lambda notices: heard[where].extend((notice.kind, notice.id) for notice in notices)

    first.writer.listen_afar(note("own"))
    second.writer.listen(note("all"))
    second.writer.listen_afar(note("afar"))

    def write(session: Session) -> None:
        for kind in ("job", "telemetry", "job"):
            notify(session, None, kind, {})

    first.writer.run(write)
    until(lambda: len(heard["afar"]) == 2, "the newest of each kind is heard")
    assert heard["afar"] == heard["all"] == [("job", 3), ("telemetry", 2)]

    def fail(session: Session) -> None:
        write(session)
        raise LookupError

    with pytest.raises(LookupError):
        first.writer.run(fail)
    first.writer.run(lambda session: notify(session, None, "x" * 32, {}))
    until(lambda: len(heard["afar"]) == 3, "what was not committed is not heard")
    assert heard["afar"][-1][0] == "x" * 32
    assert heard["own"] == []


def test_a_session_that_breaks_is_made_anew_and_what_it_may_have_missed_is_said(
    open_one: Callable[[], Database],
) -> None:
    first, second = open_one(), open_one()
    heard: list[str] = []
    second.writer.listen_afar(lambda notices: heard.extend(notice.kind for notice in notices))
    end = text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
    with first.read() as session:
        session.scalar(end)
    until(lambda: MISSED in heard, "it listens again")
    first.writer.run(lambda session: notify(session, None, KIND, {}))
    until(lambda: KIND in heard, "it hears")
