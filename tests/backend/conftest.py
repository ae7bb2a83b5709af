"""Servers that the tests of the service share. Descriptions are cached for the whole session: each takes seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from backend.app import create_app
from backend.chaos.ray_nodes import RayNodes
from backend.db import Database
from backend.db.engine import sqlite_file, sqlite_url
from backend.db.models import Attempt
from backend.executors import local, process
from backend.services import describing, drawing
from backend.services.racing import Racing
from backend.settings import Settings
from tests import databases
from tests.backend import warm, warm_drawing
from tests.backend.guarded import application, browser
from tests.backend.house import House
from tests.backend.live_server import LiveServer
from tests.backend.ray_programs import real_cluster
from tests.databases import KINDS, POSTGRESQL, SQLITE, on_postgresql, url_of
from tests.postgres import Cluster

CPU_DEVICES = 4
STARTED_ANEW = {"test_descriptions", "test_description_forks"}
"""The files whose subject is the process that describes a model."""
ON_SQLITE = {
    "test_figures_links", "test_figures_markup", "test_figures_race", "test_figures_timeline", "test_rehearsed",
    "test_scheduler_loop", "test_scheduler_retry", "test_shared_units", "test_slowed", "test_unreadable_jobs",
}  # fmt: skip
"""The files whose tests meet PostgreSQL in `soak`. In the suite every figure of one job is drawn from one in
`test_figures_registry.py`, a race by what stands below, comparisons, reasons and series of links in files of their own;
jobs are scheduled by one in three tests of `test_scheduler_retry.py` and in `test_scheduler_drain.py`, and all that is
written and rolled up is tested with both."""
ON_BOTH = {
    "test_a_job_makes_room_for_one_that_waits_and_goes_on_behind_it",
    "test_a_job_that_failed_is_tried_again_and_every_attempt_is_kept",
    "test_a_restarted_server_knows_which_jobs_back_off_and_tries_them_when_it_is_time",
    "test_every_job_starts_at_zero_and_finishes_at_its_next_forward",
    "test_steps_that_some_job_did_not_keep_are_skipped",
    "test_the_job_that_finishes_first_is_called_so",
}
"""Tests in those files that meet both in the suite."""


def pytest_itemcollected(item: pytest.Item) -> None:
    parameters = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    in_soak = item.path.stem in ON_SQLITE and getattr(item, "originalname", "") not in ON_BOTH
    if parameters.get("new_url") == POSTGRESQL and in_soak and not on_postgresql():
        item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="module", autouse=True)
def warm_descriptions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Models are described in forks of a process that has loaded PyTorch: a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.path.stem not in STARTED_ANEW:
            patch.setattr(describing, "subprocess", warm.PROGRAMS)
        yield


@pytest.fixture(scope="module", autouse=True)
def warm_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures are drawn in forks of a process that has loaded what draws."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.path.stem != "test_drawing":
            patch.setattr(drawing, "get_context", lambda _: warm_drawing.CONTEXT)
        yield


@pytest.fixture(scope="session")
def descriptions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which servers of this session keep their caches."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def postgres() -> Cluster:
    """A PostgreSQL."""
    return databases.postgres()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database that has gone through all migrations, to be copied: that takes a tenth of the time."""
    file = tmp_path_factory.mktemp("migrated") / "trainyard.db"
    Database(sqlite_url(file)).close()
    return file


@pytest.fixture(scope="session")
def settings_for(descriptions: Path, migrated: Path) -> Callable[[Path], Settings]:
    """Makes settings of an application that keeps its data in a folder."""

    def make(data_dir: Path) -> Settings:
        url = url_of(data_dir)
        if url is None:
            shutil.copy(migrated, data_dir / migrated.name)
        (data_dir / "cache").symlink_to(descriptions)
        return Settings(data_dir=data_dir, cpu_devices=CPU_DEVICES, scheduler=False, database_url=url)

    return make


@pytest.fixture(scope="session")
def session_api(
    tmp_path_factory: pytest.TempPathFactory, settings_for: Callable[[Path], Settings]
) -> Iterator[TestClient]:
    """The application with a database of its own, and no scheduler: jobs stay queued."""
    yield from _api(settings_for(tmp_path_factory.mktemp("api")))


@pytest.fixture(scope="module")
def api(
    tmp_path_factory: pytest.TempPathFactory, settings_for: Callable[[Path], Settings]
) -> Iterator[TestClient]:
    """The same for one file of tests."""
    yield from _api(settings_for(tmp_path_factory.mktemp("api")))


def _api(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The application with a token, running."""
    app = application(tmp_path_factory.mktemp("guarded"))
    with TestClient(app):
        yield app


@pytest.fixture
def stranger(guarded: FastAPI) -> TestClient:
    return browser(guarded)


@pytest.fixture(scope="module")
def live(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[LiveServer]:
    """A server in a process of its own, on a free port, that starts no jobs."""
    data_dir = tmp_path_factory.mktemp("live")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(data_dir, scheduler=False, warm_jobs=True) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def new_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes URLs of databases that are empty: of SQLite, and then the same tests of PostgreSQL."""
    if request.param == SQLITE:
        return lambda: sqlite_url(tmp_path_factory.mktemp("db") / "trainyard.db")
    return databases.postgres().new_schema


@pytest.fixture(scope="module")
def migrated_url(request: pytest.FixtureRequest, new_url: Callable[[], str]) -> Callable[[], str]:
    """Makes URLs of databases without a row, as `new_url` does, of which those of SQLite have all tables."""

    def make() -> str:
        url = new_url()
        if (file := sqlite_file(url)) is not None:
            shutil.copy(request.getfixturevalue("migrated"), file)
        return url

    return make


@pytest.fixture(scope="module")
def database(migrated_url: Callable[[], str]) -> Iterator[Database]:
    """One of each kind for each file of tests, with the service's own writer and no server."""
    database = Database(migrated_url())
    yield database
    database.close()


@pytest.fixture
def new_database(migrated_url: Callable[[], str]) -> Iterator[Database]:
    """One of each kind for each test."""
    database = Database(migrated_url())
    yield database
    database.close()


@pytest.fixture
def small_database(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Database]:
    """A SQLite database without a row."""
    file = tmp_path_factory.mktemp("database") / migrated.name
    shutil.copy(migrated, file)
    database = Database(sqlite_url(file))
    yield database
    database.close()


@pytest.fixture
def house(
    server_lane: None, tmp_path: Path, migrated_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    # Supervisors of scheduled jobs are forked; those of the executor's own tests are started anew.
    monkeypatch.setattr(local, "subprocess", warm.PROGRAMS)
    warm.address()
    house = House(tmp_path, migrated_url())
    yield house
    with house.database.read() as session:
        directories = list(session.scalars(select(Attempt.directory)))
    house.leave()
    for directory in directories:
        process.kill_marked(Path(directory))


@pytest.fixture
def open_house(house: House) -> House:
    house.scheduler.start()
    return house


@pytest.fixture(scope="session")
def ray_node(server_lane: None) -> Iterator[RayNodes]:
    """A Ray cluster with one node."""
    with real_cluster(1, cpus=2) as nodes:
        yield nodes


@pytest.fixture
def racing(api: TestClient) -> Racing:
    """What submits the jobs of races; the tests say when it looks."""
    context = api.app.state.context  # type: ignore[attr-defined]
    return Racing(context.database, context.jobs)
