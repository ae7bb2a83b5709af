"""PostgreSQL's lock goes with its session: whoever has it looks after that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from backend.db.engine import open_engine
from backend.services import lock
from engine.errors import UserError
from tests.backend.ingest_server import POSTGRES, open_database

pytestmark = pytest.mark.skipif(POSTGRES is None, reason="needs a PostgreSQL: TRAINYARD_TEST_POSTGRES")
WAIT_S = 30.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    open_database(tmp_path).close()
    monkeypatch.setattr(lock, "LOOK_S", 0.2)


def end_session() -> None:
    """What a restart of the database does to whoever has the lock."""
    engine = open_engine(str(POSTGRES), readonly=False).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        ended = connection.scalar(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )
    engine.dispose()
    assert ended == 1


def holder() -> str:
    """Who has the database, as a second server is told; empty where nobody has it."""
    try:
        with lock.database_held(str(POSTGRES), "http://second", lost=pytest.fail):
            return ""
    except UserError as error:
        return str(error)


def test_a_session_that_ends_is_replaced() -> None:
    lost: list[UserError] = []
    with lock.database_held(str(POSTGRES), "http://first", lost=lost.append):
        assert "http://first" in holder()
        end_session()
        deadline = time.monotonic() + WAIT_S
        while "http://first" not in holder():
            assert time.monotonic() < deadline
            time.sleep(0.5)  # whoever asks has the lock for a moment
        assert not lost
    assert holder() == ""


def test_whoever_finds_another_server_in_its_place_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()
    found: list[UserError] = []

    def lost(error: UserError) -> None:
        found.append(error)
        heard.set()

    monkeypatch.setattr(lock, "LOOK_S", 2.0)
    with lock.database_held(str(POSTGRES), "http://first", lost=lost):
        end_session()
        with lock.database_held(str(POSTGRES), "http://second", lost=pytest.fail):
            assert heard.wait(WAIT_S)
    assert "http://second" in str(found[0])
