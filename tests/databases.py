"""Which database a test has whose subject is no database: SQLite, or with `--database postgresql` a PostgreSQL.

Servers, applications and commands are given one by their data directory (`url_of`), so that a second server on a
directory finds what the first one left. Tests that run on both in one run ask for `new_url`, `database` or
`new_database` (`tests/backend/conftest.py`). This is a plugin of pytest.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from backend.db.engine import sqlite_url
from tests.postgres import Cluster, cluster

SQLITE, POSTGRESQL = KINDS = ("sqlite", "postgresql")
OF_SQLITE = {
    "test_chaos", "test_chaos_ports", "test_database_damage", "test_ingest_copied", "test_membership",
    "test_private_files", "test_two_servers",
}  # fmt: skip
"""The files whose subject is one database: nothing of them is different on the other."""
OPENS_THE_FILE = {
    "test_a_second_server_on_the_same_database_is_refused",
    "test_a_locked_database_is_named_and_works_when_the_lock_is_gone",
    "test_a_database_of_a_newer_program_is_left_alone",
    "test_a_file_that_is_no_database_is_refused",
    "test_nothing_that_people_say_of_a_job_drives_the_terminal",
    "test_the_benchmark_asks_a_real_server_while_telemetry_comes_in",
}
"""Such tests in other files."""
_chosen = SQLITE
_started: Cluster | None = None
_ends = ExitStack()
_urls: dict[Path, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database", choices=KINDS, default=SQLITE, help="of the servers and applications that tests start"
    )


def pytest_configure(config: pytest.Config) -> None:
    global _chosen  # noqa: PLW0603
    _chosen = config.getoption("--database")


def pytest_unconfigure() -> None:
    _ends.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL those that name SQLite run no second time."""
    if _chosen == SQLITE:
        return
    left = [item for item in items if _of_sqlite(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _of_sqlite(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    name = getattr(item, "originalname", item.name)
    return parameters.get("new_url") == SQLITE or item.path.stem in OF_SQLITE or name in OPENS_THE_FILE


def on_postgresql() -> bool:
    """Whether this run was asked to be."""
    return _chosen == POSTGRESQL


def postgres() -> Cluster:
    """The PostgreSQL of this run, which starts when it is asked for; skips where the machine has none."""
    global _started  # noqa: PLW0603
    if _started is None:
        _started = _ends.enter_context(cluster())
    return _started


def url_of(data_dir: Path) -> str | None:
    """For TRAINYARD_DATABASE_URL of a server with this directory; None: its default, a file in there."""
    if not on_postgresql():
        return None
    where = data_dir.resolve()
    if where not in _urls:
        _urls[where] = postgres().new_schema()
    return _urls[where]


def opened_by(data_dir: Path) -> str:
    """The URL of the database that such a server has opened."""
    return url_of(data_dir) or sqlite_url(data_dir / "trainyard.db")
