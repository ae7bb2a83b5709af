"""Database, launch files, logs and models are for the server's user only, also where they were not."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from backend.client import Client
from backend.db import Database
from backend.db.engine import sqlite_url
from backend.services import lock
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer

PYTORCHS = ("/rendezvous", "/rendezvous-native")
"""Files that PyTorch makes, in the attempt's private folder."""


def open_to_others(folder: Path) -> list[str]:
    """All below it that a group or others may read, write or look into."""
    paths = [Path(where, name) for where, folders, names in os.walk(folder) for name in (*folders, *names)]
    found = [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    return [path for path in found if not path.endswith(PYTORCHS)]


@pytest.fixture(autouse=True)
def _usual_umask() -> None:
    os.umask(0o022)


@pytest.mark.usefixtures("server_lane")
def test_nothing_of_a_job_is_open_to_others(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with LiveServer(data_dir, cpu_devices=2, warm_jobs=True) as server, Client(server.url) as client:
        job = client.wait(client.submit(job_spec()).id, timeout_s=120)
        assert job.state == "succeeded", job.message
        attempt = data_dir / "jobs" / job.id / "1"
        for name in (
            "launch.json",
            "end.json",
            "logs/worker-0.log",
            "logs/supervisor.log",
            "result/model.pt",
        ):
            assert stat.S_IMODE((attempt / name).stat().st_mode) == 0o600, name
        assert (data_dir / "trainyard.db-wal").exists()
        assert open_to_others(tmp_path) == []


def test_a_database_that_was_open_to_others_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "trainyard.db"
    Database(sqlite_url(file)).close()
    file.chmod(0o664)
    (tmp_path / "trainyard.db-wal").touch(0o644)
    with caplog.at_level(logging.WARNING):
        database = Database(sqlite_url(file))
    with database.read():
        assert open_to_others(tmp_path) == []
    database.close()
    assert f"{file} was open to other users (mode 664)" in caplog.text


def test_folders_that_were_open_to_others_are_closed(tmp_path: Path) -> None:
    """But for the data directory itself, which a person named: it may be somebody's home."""
    for name in ("jobs", "cache"):
        (tmp_path / name).mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    with lock.held(tmp_path, "here"):
        assert open_to_others(tmp_path) == []
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
