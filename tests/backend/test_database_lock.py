"""PostgreSQL's lock goes with its session: whoever has it looks after that."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import text

from backend.db.engine import open_engine
from backend.services import lock
from engine.errors import UserError
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
                " WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )
    engine.dispose()
    assert ended == 1


def is_locked(url: str) -> bool:
    engine = open_engine(url, readonly=False)
    with engine.connect() as connection:
        locks = connection.scalar(
            text(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )
    engine.dispose()
    return bool(locks)


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
        deadline = time.monotonic() + WAIT_S
        while not is_locked(url):  # who asked by taking it would have it for a moment
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "http://first" in holder(url)
        assert not lost
    assert holder(url) == ""


def test_whoever_finds_another_server_in_its_place_hears_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = threading.Event()
    found: list[UserError] = []

    def lost(error: UserError) -> None:
        found.append(error)
        heard.set()

    monkeypatch.setattr(lock, "LOOK_S", 4.0)
    with lock.database_held(url, "http://first", lost=lost):
        end_session(url)
        with lock.database_held(url, "http://second", lost=pytest.fail):
            assert heard.wait(WAIT_S)
    assert "http://second" in str(found[0])
