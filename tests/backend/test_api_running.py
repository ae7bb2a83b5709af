"""Jobs that really run, from the submission to the end, over a real server and real processes; some of it asked for
from a terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from backend.cli.main import app
from backend.client import ENDED, ApiError, Client
from tests.backend.executor_attempts import until
from tests.backend.held_jobs import held_spec, let_go
from tests.backend.job_specs import job_spec, unlucky_spec
from tests.backend.live_server import LiveServer

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def client(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[Client]:
    data_dir = tmp_path_factory.mktemp("running")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(data_dir, cpu_devices=2, warm_jobs=True) as server, Client(server.url) as found:
        yield found


@pytest.fixture(autouse=True)
def none_outlives_its_test(client: Client) -> Iterator[None]:
    """A job that a test leaves when it fails would keep devices and processors from all that follow, for hours."""
    yield
    left = [job.id for job in client.jobs() if job.state not in ENDED]
    for job_id in left:
        client.cancel(job_id)
        client.wait(job_id, timeout_s=LIMIT_S)


def wait_until_it_runs(client: Client, job_id: str) -> None:
    while (state := client.job(job_id).state) != "running":
        assert state in {"queued", "placing", "starting"}
        time.sleep(0.05)


def trainyard(client: Client, *arguments: str) -> Result:
    """A command, asked of the client's server."""
    return CliRunner().invoke(app, [*arguments, "--url", client.url])


def submitted_and_waited_for(client: Client, directory: Path, spec: dict[str, Any]) -> tuple[Result, str]:
    """What `submit --wait` says of it, and its id."""
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(spec))
    found = trainyard(client, "submit", str(file), "--wait")
    return found, found.stdout.strip()


def test_a_job_runs_to_its_end_and_is_measured(client: Client, tmp_path: Path) -> None:
    training = {"steps": 20, "global_batch": 32, "target_accuracy": 0.01}
    said, job_id = submitted_and_waited_for(client, tmp_path, job_spec("runs", training=training))
    assert (said.exit_code, "runs: succeeded, test accuracy" in said.stderr) == (0, True), said.output
    job = client.job(job_id)
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
    compared = trainyard(client, "compare", job.id, job.id).stdout
    assert f"{summary.iteration_ms:.2f} ms" in compared
    assert f"{summary.samples_per_s:.1f} samples/s" in compared
    assert re.search(r"^convergence speed-up +1 +1\.00x$", compared, re.MULTILINE), compared
    named = f"runs ({job.id[:13]})"
    same = "both have the same global batch (strong scaling)."
    assert f"The speed-up of {named} is over {named}; {same}" in compared


def test_jobs_wait_for_devices_and_are_cancelled_while_they_run(client: Client) -> None:
    endless = held_spec("endless")
    running = client.submit(endless)
    waiting = client.submit(endless | {"name": "waits"})
    wait_until_it_runs(client, running.id)
    waits = until(
        lambda: found if (found := client.job(waiting.id)).reason == "waiting-for-devices" else None,
        "it is told why it waits",
    )
    assert waits.state == "queued"
    assert "endless" in (waits.message or "")
    assert {device.job_name for device in client.devices() if device.kind == "cpu"} == {"endless"}
    client.cancel(waiting.id)
    client.cancel(running.id)
    ended = client.wait(running.id, timeout_s=LIMIT_S)
    assert (ended.state, ended.reason) == ("cancelled", "cancelled")
    assert all(device.job_id is None for device in client.devices())


def test_steps_that_a_person_asks_for_are_kept(client: Client) -> None:
    nothing = {"first": 0, "few": 0, "slowest": False, "last_s": 0.0}
    job_id = client.submit(held_spec("recorded", at=1_000_000, telemetry=nothing)).id
    while (client.job(job_id).step or 0) < 20:
        time.sleep(0.05)
    said = re.fullmatch(
        r"steps (\d+) to (\d+) are recorded\n", trainyard(client, "record", job_id, "--steps", "30").stdout
    )
    assert said is not None
    first, last = map(int, said.groups())
    assert last == first + 29
    deadline = time.monotonic() + LIMIT_S
    while True:
        events = client.events(job_id, step_from=first, step_to=last)
        if {(worker, step) for worker, step in zip(events.worker, events.step, strict=True)} >= {
            (worker, step) for worker in (0, 1) for step in range(first, last + 1)
        }:
            break
        assert time.monotonic() < deadline, "the asked steps did not come"
        time.sleep(0.1)
    assert client.events(job_id, step_from=0, step_to=first - 1).step == []
    seen = trainyard(client, "top", "--once").stdout.splitlines()
    (row,) = [line for line in seen if line and job_id.startswith(line.split()[0])]
    assert re.search(r"running +\d+/1000000 +\d+:\d\d:\d\d +\d+\.\d +[\d.]+ ms +[\d.]+ % +[\d.]+ % ", row), (
        row
    )
    while (machine := client.summary(job_id).processors) is None:
        assert time.monotonic() < deadline, "nobody said how busy the processors are"
        time.sleep(0.1)
    assert 0 < machine.own <= machine.busy <= 1
    client.cancel(job_id)
    client.wait(job_id, timeout_s=LIMIT_S)


def test_a_loss_that_is_no_number_fails_the_job_with_its_reason(client: Client, tmp_path: Path) -> None:
    diverging = job_spec("diverges", optimizer={"learning_rate": 1e30})
    said, job_id = submitted_and_waited_for(client, tmp_path, diverging)
    assert (said.exit_code, "diverges: failed: " in said.stderr) == (1, True), said.output
    job = client.job(job_id)
    assert job.state == "failed"
    assert job.reason == "process-failed"
    assert "loss" in (job.message or "")
    assert "learning" in (job.message or "")
    assert client.health().status == "ok"


def test_logs_of_every_attempt_are_read_and_followed_from_their_beginning(
    client: Client, tmp_path: Path
) -> None:
    job_id = client.submit(unlucky_spec(tmp_path)).id
    followed = "".join(client.follow(job_id, poll_s=0.1))
    job = client.job(job_id)
    assert (job.state, len(job.attempts)) == ("succeeded", 2), job.message
    first, second = (client.logs(job_id, attempt=number) for number in (1, 2))
    assert "the first attempt xxx" in first.text
    assert "bad luck" in first.text
    assert second.text.count("the second attempt\n") == 2
    assert second.size < first.size, "a log that is followed on at the first one's length must miss something"
    assert followed == first.text + second.text
    assert client.logs(job_id) == second
    assert "".join(client.follow(job_id, attempt=1)) == first.text
    assert "".join(client.follow(job_id)) == second.text
    assert client.events(job_id, attempt=2).kind == client.events(job_id).kind != []
    assert client.events(job_id, attempt=1, kind="update").kind == []
    for number in (0, 3):
        with pytest.raises(ApiError) as refused:
            client.logs(job_id, attempt=number)
        assert (refused.value.status, refused.value.problem.errors[0].field) == (422, "attempt")


@pytest.mark.usefixtures("server_lane")
def test_jobs_outlive_the_server(tmp_path: Path, descriptions: Path, port: int) -> None:
    (tmp_path / "cache").symlink_to(descriptions)
    spec = held_spec("outlives", steps=40)
    with LiveServer(tmp_path, port=port, cpu_devices=2) as server, Client(server.url) as first:
        job_id = first.submit(spec).id
        wait_until_it_runs(first, job_id)
        server.process.kill()
        server.process.wait()
    with LiveServer(tmp_path, port=port, cpu_devices=2) as server, Client(server.url) as second:
        let_go(tmp_path, job_id)
        job = second.wait(job_id, timeout_s=LIMIT_S)
        assert (job.state, len(job.attempts)) == ("succeeded", 1), job.message
        assert job.step == 40
