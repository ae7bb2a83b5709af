"""What surrounds the server goes wrong: clear errors, and nothing that was acknowledged or measured is lost."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backend.client import ApiError, Client
from backend.db import Database
from backend.executors import process
from backend.executors.base import Running
from backend.executors.supervised import Supervised
from backend.lifecycle import Reason
from tests.backend.executor_attempts import NOWHERE, ended, launch, programs_executor, running, until
from tests.backend.held_jobs import NEVER, held_spec, let_go
from tests.backend.ingest_server import TOKEN, add_attempt
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer, run
from tests.databases import opened_by
from tests.small_disk import small_disk

pytestmark = pytest.mark.usefixtures("server_lane")

LIMIT_S = 120.0
STEPS = 600


def wait_for_step(client: Client, job_id: str, step: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (client.job(job_id).step or 0) < step:
        assert time.monotonic() < deadline, client.job(job_id).message
        time.sleep(0.05)


def refused(client: Client, name: str) -> str | None:
    """What the server says to a job that it cannot store; None where it stored it."""
    try:
        client.submit(job_spec(name))
    except ApiError as error:
        return f"{error.status}: {error}"
    return None


# --- the database's file ---


def test_a_second_server_on_the_same_database_is_refused(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "one", scheduler=False) as server:
        shared = f"sqlite:///{tmp_path / 'one' / 'trainyard.db'}"
        second = run("serve", "--port", "0", data_dir=tmp_path / "two", database_url=shared)
    assert second.returncode == 2
    assert f"process {server.process.pid} at {server.url}" in second.stderr
    assert "TRAINYARD_DATABASE_URL" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trainyard.db").write_text("a note to myself, long enough to be looked at" * 100)
    second = run("serve", "--port", "0", data_dir=tmp_path)
    assert second.returncode == 1
    assert f"database {tmp_path / 'trainyard.db'}: it is no SQLite database" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_locked_database_is_named_and_works_when_the_lock_is_gone(
    tmp_path: Path, descriptions: Path
) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    file = tmp_path / "trainyard.db"
    impatient = {"data_dir": tmp_path, "database_url": f"sqlite:///{file}?timeout=0.2", "scheduler": False}
    with LiveServer(**impatient) as server, Client(server.url) as client:  # type: ignore[arg-type]
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        said = refused(client, "while it is locked")
        assert said is not None
        assert said.startswith("503: ")
        assert f"database {file}: another program holds its lock" in said
        assert list(client.jobs()) == [], "reading goes on"
        other.execute("ROLLBACK")
        client.submit(job_spec("after"))
        other.execute("BEGIN IMMEDIATE")
    refused_start = run("serve", "--port", "0", **impatient)
    assert refused_start.returncode == 1
    assert "another program holds its lock" in refused_start.stderr
    assert "Traceback" not in refused_start.stderr
    other.close()


# --- full disks ---


def test_a_full_disk_under_the_database_loses_nothing(tmp_path: Path, descriptions: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cache").symlink_to(descriptions)
    with small_disk(tmp_path / "disk", 24) as disk:
        url = f"sqlite:///{disk.path / 'trainyard.db'}"
        with (
            LiveServer(tmp_path / "data", cpu_devices=2, database_url=url, warm_jobs=True) as server,
            Client(server.url) as client,
        ):
            job_id = client.submit(held_spec("goes on", at=STEPS - 20, steps=STEPS)).id
            wait_for_step(client, job_id, 10)
            disk.fill()
            said, tried = None, 0
            while said is None:  # what the write-ahead log has room for is stored
                said, tried = refused(client, f"waits {tried}"), tried + 1
            assert said.startswith("503: ")
            assert "the disk under it is full" in said
            assert client.job(job_id).state == "running"
            disk.free()
            for job in client.jobs(state="queued"):
                client.cancel(job.id)
            let_go(tmp_path / "data", job_id)
            job = client.wait(job_id, timeout_s=LIMIT_S)
            assert (job.state, job.attempts[0].sealed) == ("succeeded", True), job.message
            assert [point.step for point in client.metrics(job_id, "loss").series["loss"]] == list(
                range(STEPS)
            )


def test_a_full_disk_under_the_spool_loses_no_totals(tmp_path: Path, descriptions: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        (disk.path / "cache").symlink_to(descriptions)
        url = f"sqlite:///{tmp_path / 'trainyard.db'}"
        with (
            LiveServer(disk.path, cpu_devices=2, database_url=url, warm_jobs=True) as server,
            Client(server.url) as client,
        ):
            # It does not end while the disk is full: its result would have no room either.
            job_id = client.submit(held_spec("goes on", at=STEPS - 20, steps=STEPS)).id
            wait_for_step(client, job_id, 10)
            before, still_since = -1, time.monotonic()
            # Until nothing arrives any more; batches are up to a second apart.
            while time.monotonic() < still_since + 3:
                disk.fill()  # again and again: a batch that has arrived leaves its room to the next
                time.sleep(0.05)
                now = client.job(job_id).revision
                if now != before:
                    before, still_since = now, time.monotonic()
            assert client.job(job_id).state == "running"
            disk.free()
            let_go(disk.path, job_id)
            job = client.wait(job_id, timeout_s=LIMIT_S)
            assert (job.state, job.attempts[0].sealed) == ("succeeded", True), job.message
            assert job.step == STEPS
            (arrived,) = sqlite3.connect(tmp_path / "trainyard.db").execute("SELECT count(*) FROM step_rows")
            assert arrived == (2 * STEPS,), "every step of both workers"
            log = (disk.path / "jobs" / job_id / "1" / "logs" / "worker-0.log").read_text()
            assert "telemetry is written again" in log


def test_a_full_disk_does_not_keep_a_supervisor_from_saying_how_it_ended(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        executor = programs_executor()
        handle = executor.launch(launch(disk.path, "sleep"), NOWHERE)
        running(executor, handle)
        disk.fill()
        supervisor, *programs = process.descendants(Supervised.of(handle).identity.pid)
        for program in programs:
            process.send(program, signal.SIGKILL)
        until(lambda: not process.descendants(supervisor.pid), "its processes have ended")
        assert isinstance(executor.poll(handle), Running)
        disk.free()
        assert ended(executor, handle).reason is Reason.PROCESS_KILLED


# --- clients that leave ---


def send_part(url: str, path: str, headers: dict[str, str], body: bytes, share: float) -> None:
    """Send a request's head and a part of its body, and leave."""
    address = urlsplit(url)
    assert address.hostname is not None
    lines = [f"POST {path} HTTP/1.1", f"Host: {address.netloc}", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""])
    with socket.create_connection((address.hostname, address.port or 80)) as connection:
        connection.sendall(head.encode() + body[: round(len(body) * share)])


def test_a_client_that_leaves_in_the_middle_of_a_submission(live: LiveServer) -> None:
    body = json.dumps(job_spec("from one who left")).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": "left"}
    with Client(live.url) as client:
        send_part(live.url, "/api/v1/jobs", headers, body, 0.5)
        assert list(client.jobs(text="from one who left")) == [], "half a submission is none"
        send_part(live.url, "/api/v1/jobs", headers, body, 1.0)
        deadline = time.monotonic() + LIMIT_S
        while not (found := list(client.jobs(text="from one who left"))):
            assert time.monotonic() < deadline, "a whole one is stored, though nobody hears the answer"
            time.sleep(0.05)
        assert client.submit(job_spec("from one who left"), key="left").id == found[0].id
        assert len(list(client.jobs(text="from one who left"))) == 1
    assert not any("Traceback" in line for line in live.output)


def test_a_process_that_leaves_in_the_middle_of_a_batch(live: LiveServer) -> None:
    database = Database(opened_by(live.data_dir))
    attempt = add_attempt(database)
    database.close()
    headers = {"Content-Type": "application/octet-stream", "Authorization": f"Bearer {TOKEN}"}
    send_part(live.url, f"/api/v1/attempts/{attempt}/batches", headers, b"x" * 100_000, 0.5)
    with Client(live.url) as client:
        assert client.health().status == "ok"
    assert not any("Traceback" in line for line in live.output)


# --- directories ---


@pytest.fixture
def server(tmp_path: Path, descriptions: Path) -> LiveServer:
    (tmp_path / "cache").symlink_to(descriptions)
    return LiveServer(tmp_path, cpu_devices=2, warm_jobs=True)


def test_a_job_whose_directory_vanishes_ends_and_says_so(server: LiveServer) -> None:
    endless = held_spec("loses its home", at=NEVER)
    with server, Client(server.url) as client:
        job_id = client.submit(endless).id
        wait_for_step(client, job_id, 10)
        directory = server.data_dir / "jobs" / job_id / "1"
        arrived = client.job(job_id).step or 0
        while directory.exists():  # its processes go on writing there
            shutil.rmtree(directory, ignore_errors=True)
        job = client.wait(job_id, timeout_s=LIMIT_S)
        assert (job.state, job.reason) == ("failed", "directory-lost")
        assert str(directory) in (job.message or "")
        assert (job.step or 0) >= arrived, "what had arrived stays"
        assert process.marked(directory) == []
        assert all(device.job_id is None for device in client.devices())
        assert client.logs(job_id).text == ""
        assert client.wait(client.submit(job_spec("next")).id, timeout_s=LIMIT_S).state == "succeeded"
