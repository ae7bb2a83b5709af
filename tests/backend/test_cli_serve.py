"""`trainyard serve`: starting, being in the way of itself, ending."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest

from backend.client import Client
from backend.services import lock
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer, run

pytestmark = pytest.mark.usefixtures("server_lane")


def test_it_starts_answers_and_ends(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, anew=True) as server:
        with Client(server.url) as client:
            assert client.health().status == "ok"
        assert f"process {server.process.pid} at {server.url}" in (tmp_path / "server.lock").read_text()
        assert server.stop() == 0
    assert server.output == [f"Trainyard is at {server.url}\n"]


def test_jobs_are_there_after_a_restart(tmp_path: Path, descriptions: Path) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    with LiveServer(tmp_path, scheduler=False) as server, Client(server.url) as client:
        job = client.submit(job_spec("kept"), key="kept")
    with LiveServer(tmp_path, scheduler=False) as server, Client(server.url) as client:
        assert client.job(job.id) == job
        assert client.submit(job_spec("kept"), key="kept").id == job.id


def test_a_paused_server_tells_jobs_why_they_wait(tmp_path: Path, descriptions: Path) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    with LiveServer(tmp_path, paused=True) as server, Client(server.url) as client:
        job_id = client.submit(job_spec("waits")).id
        until(lambda: client.job(job_id).reason == "server-paused", "it is told")
        assert client.cancel(job_id).state == "cancelled"


def test_a_killed_server_leaves_a_directory_that_the_next_one_takes(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False) as server:
        server.process.kill()
        server.process.wait()
    with LiveServer(tmp_path, scheduler=False) as server, Client(server.url) as client:
        assert client.health().status == "ok"


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False) as server:
        second = run("serve", "--port", "0", data_dir=tmp_path)
    assert second.returncode == 2
    assert f"process {server.process.pid} at {server.url}" in second.stderr
    assert "TRAINYARD_DATA_DIR" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = run("serve", "--port", str(port), data_dir=tmp_path)
    assert refused.returncode == 2
    assert f"port = {port}" in refused.stderr
    assert "choose another" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    refused = run("serve", "--port", "0", "--host", "192.0.2.1", "--insecure", data_dir=tmp_path)
    assert refused.returncode == 2
    assert "host = '192.0.2.1'" in refused.stderr
    assert "cannot be listened on" in refused.stderr


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    refused = run("serve", "--cpu-devices", "0", data_dir=tmp_path)
    assert refused.returncode == 2
    assert "cpu_devices = 0" in refused.stderr
    unknown = run("serve", "--port", "0", data_dir=tmp_path, executor="cloud")
    assert unknown.returncode == 2
    assert "Known: local" in unknown.stderr


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("serve", "--port", "0", data_dir=tmp_path / "file" / "below")
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr


def test_a_database_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "trainyard.db") as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
    refused = run("serve", "--port", "0", data_dir=tmp_path)
    assert refused.returncode == 1
    assert "newer than this program" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_listening_for_others_warns(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, host="0.0.0.0", insecure=True) as server:
        assert server.url.startswith("http://127.0.0.1:")
    assert any("can run programs on this machine" in line for line in server.output)


def test_a_data_directory_that_the_server_makes_is_its_users_alone(tmp_path: Path) -> None:
    with lock.held(tmp_path / "data", "http://127.0.0.1:1"):
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0
