"""Servers that the tests of the service share. Descriptions are cached for the whole session: each takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from backend.app import create_app
from backend.db import Database
from backend.db.models import Attempt
from backend.executors import process
from backend.settings import Settings
from tests.backend.house import House
from tests.backend.ingest_server import open_database
from tests.backend.live_server import LiveServer

CPU_DEVICES = 4


@pytest.fixture(scope="session")
def descriptions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which servers of this session keep their caches."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def session_api(tmp_path_factory: pytest.TempPathFactory, descriptions: Path) -> Iterator[TestClient]:
    """The application with a database of its own, and no scheduler: jobs stay queued."""
    yield from _api(tmp_path_factory.mktemp("api"), descriptions)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, descriptions: Path) -> Iterator[TestClient]:
    """The same for one file of tests."""
    yield from _api(tmp_path_factory.mktemp("api"), descriptions)


def _api(data_dir: Path, cache: Path) -> Iterator[TestClient]:
    (data_dir / "cache").symlink_to(cache)
    settings = Settings(data_dir=data_dir, cpu_devices=CPU_DEVICES, scheduler=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
def live(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[LiveServer]:
    """A server in a process of its own, on a free port, that starts no jobs."""
    data_dir = tmp_path_factory.mktemp("live")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(data_dir, scheduler=False) as server:
        yield server


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One for each file of tests, with the service's own writer and no server."""
    database = open_database(tmp_path_factory.mktemp("db"))
    yield database
    database.close()


@pytest.fixture
def house(server_lane: None, tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    with house.database.read() as session:
        directories = list(session.scalars(select(Attempt.directory)))
    house.close()
    for directory in directories:
        process.kill_marked(Path(directory))


@pytest.fixture
def open_house(house: House) -> House:
    house.scheduler.start()
    return house
