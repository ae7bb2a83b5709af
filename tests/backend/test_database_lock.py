"""PostgreSQL's lock goes with its session: whoever has it looks after that."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from backend.db.engine import open_engine
from backend.services import lock
from engine.errors import UserError
from tests.backend.executor_attempts import until
from tests.postgres import Cluster

WAIT_S = 30.0


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, postgres: Cluster) -> str:
    """A database whose holders look at their sessions often."""
    monkeypatch.setattr(lock, "LOOK_S", 0.2)
    return postgres.new_database()


def end_session(url: str) -> None:
    """What a restart of the database does to whoever has the lock; the session has ended when this returns."""
    engine = open_engine(url, readonly=False).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        ended = connection.scalar(
            text(
                "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 30000)) FROM pg_locks"
                " WHERE locktype = 'advisory' AND granted"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )
    engine.dispose()
    assert ended == 1


def sessions(url: str, *, granted: bool) -> int:
    """How many have the lock, or wait for it."""
    engine = open_engine(url, readonly=False)
    with engine.connect() as connection:
        locks = connection.scalar(
            text(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = :granted"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            ),
            {"granted": granted},
        )
    engine.dispose()
    return int(locks or 0)


def holder(url: str) -> str:
    """Who has the database, as a second server is told; empty where nobody has it."""
    try:
        with lock.database_held(url, "http://second", lost=pytest.fail):
            return ""
    except UserError as error:
        return str(error)


def test_a_session_that_ends_is_replaced(url: str) -> None:
    lost: list[UserError] = []
    with lock.database_held(url, "http://first", lost=lost.append):
        assert "http://first" in holder(url)
        end_session(url)
        # Who asked by taking it would have it for a moment.
        until(lambda: sessions(url, granted=True), "the lock is taken again")
        assert "http://first" in holder(url)
        assert not lost
    assert holder(url) == ""


def test_whoever_finds_another_server_in_its_place_hears_of_it(
    url: str,
) -> None:
    """The other one waits for the lock, so that it has it before the first one can have looked again."""
    heard = threading.Event()
    found: list[UserError] = []

    def lost(error: UserError) -> None:
        found.append(error)
        heard.set()

    second = open_engine(url, readonly=False).execution_options(isolation_level="AUTOCOMMIT")
    with (
        ThreadPoolExecutor(1) as threads,
        second.connect() as connection,
        lock.database_held(url, "http://first", lost=lost),
    ):
        connection.execute(text("SELECT set_config('application_name', 'trainyard, http://second', false)"))
        taken = threads.submit(
            connection.execute, text("SELECT pg_advisory_lock(:key)"), {"key": lock.ADVISORY}
        )
        until(lambda: sessions(url, granted=False), "another server waits for it")
        end_session(url)
        taken.result(WAIT_S)
        assert heard.wait(WAIT_S)
    second.dispose()
    assert "http://second" in str(found[0])
