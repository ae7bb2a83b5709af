"""Jobs that really run, from the submission to the end, over a real server and real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, descriptions: Path) -> Iterator[Client]:
    data_dir = tmp_path_factory.mktemp("running")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(data_dir, cpu_devices=2) as server, Client(server.url) as found:
        yield found


def wait_until_it_runs(client: Client, job_id: str) -> None:
    while (state := client.job(job_id).state) != "running":
        assert state in {"queued", "placing", "starting"}
        time.sleep(0.05)


def test_a_job_runs_to_its_end_and_is_measured(client: Client) -> None:
    job = client.wait(client.submit(job_spec("runs")).id, timeout_s=LIMIT_S)
    assert (job.state, job.reason) == ("succeeded", "completed"), job.message
    assert [row.to_state for row in job.history] == [
        "queued", "placing", "starting", "running", "stopping_succeeded", "succeeded",
    ]  # fmt: skip
    assert (job.step, job.steps) == (20, 20)
    assert job.attempts[0].sealed
    summary = client.summary(job.id)
    loss = client.metrics(job.id, "loss").series["loss"]
    assert [point.step for point in loss] == list(range(20))
    assert job.loss == loss[-1].value
    assert summary.iteration_ms == job.iteration_ms is not None
    assert summary.test_accuracy is not None
    events = client.events(job.id, step_from=0, step_to=0)
    assert {"forward", "backward", "send", "receive"} <= set(events.kind)
    assert client.figure(job.id, "timeline").data
    devices = client.devices()
    assert all(device.job_id is None for device in devices)


def test_jobs_wait_for_devices_and_are_cancelled_while_they_run(client: Client) -> None:
    endless = job_spec("endless", training={"steps": 1_000_000, "global_batch": 32})
    running = client.submit(endless)
    waiting = client.submit(endless | {"name": "waits"})
    wait_until_it_runs(client, running.id)
    waits = client.job(waiting.id)
    assert (waits.state, waits.reason) == ("queued", "waiting-for-devices")
    assert "endless" in (waits.message or "")
    assert {device.job_name for device in client.devices()} == {"endless"}
    client.cancel(waiting.id)
    client.cancel(running.id)
    ended = client.wait(running.id, timeout_s=LIMIT_S)
    assert (ended.state, ended.reason) == ("cancelled", "cancelled")
    assert all(device.job_id is None for device in client.devices())


def test_steps_that_a_person_asks_for_are_kept(client: Client) -> None:
    nothing = {"first": 0, "few": 0, "slowest": False, "last_s": 5.0}
    spec = job_spec("recorded", training={"steps": 1_000_000, "global_batch": 32}, telemetry=nothing)
    job_id = client.submit(spec).id
    while (client.job(job_id).step or 0) < 20:
        time.sleep(0.05)
    asked = client.record(job_id, 30)
    assert asked.last_step == asked.first_step + 29
    deadline = time.monotonic() + LIMIT_S
    while True:
        events = client.events(job_id, step_from=asked.first_step, step_to=asked.last_step)
        if {(worker, step) for worker, step in zip(events.worker, events.step, strict=True)} >= {
            (worker, step) for worker in (0, 1) for step in range(asked.first_step, asked.last_step + 1)
        }:
            break
        assert time.monotonic() < deadline, "the asked steps did not come"
        time.sleep(0.1)
    assert client.events(job_id, step_from=0, step_to=asked.first_step - 1).step == []
    client.cancel(job_id)
    client.wait(job_id, timeout_s=LIMIT_S)


def test_a_loss_that_is_no_number_fails_the_job_with_its_reason(client: Client) -> None:
    diverging = job_spec("diverges", optimizer={"learning_rate": 1e30})
    job = client.wait(client.submit(diverging).id, timeout_s=LIMIT_S)
    assert job.state == "failed"
    assert job.reason == "process-failed"
    assert "loss" in (job.message or "")
    assert "learning" in (job.message or "")
    assert client.health().status == "ok"


def test_jobs_outlive_the_server(tmp_path: Path, descriptions: Path) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    spec = job_spec("outlives", training={"steps": 400, "global_batch": 32})
    with LiveServer(tmp_path, cpu_devices=2) as server, Client(server.url) as first:
        job_id = first.submit(spec).id
        wait_until_it_runs(first, job_id)
        server.process.kill()
        server.process.wait()
        port = int(server.url.rpartition(":")[2])
    with LiveServer(tmp_path, port=port, cpu_devices=2) as server, Client(server.url) as second:
        job = second.wait(job_id, timeout_s=LIMIT_S)
        assert (job.state, len(job.attempts)) == ("succeeded", 1), job.message
        assert job.step == 400
