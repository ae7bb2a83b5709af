"""What a person asks to record, and what could not be kept: through the API, the client and the terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from backend.executors.local_files import LocalFiles
from engine.telemetry import asked
from engine.telemetry import batch as wire
from tests.backend.job_specs import submit
from tests.backend.posted_run import STEPS, Posted, end_attempt, record_steps, start_attempt


@pytest.fixture
def run(api: TestClient, tmp_path: Path) -> Posted:
    """A job that runs, with an empty directory."""
    return start_attempt(api, submit(api, "recorded")["id"], tmp_path)


def test_the_next_steps_are_asked_for_by_their_numbers(api: TestClient, run: Posted, tmp_path: Path) -> None:
    url = f"/api/v1/jobs/{run.job_id}/record"
    assert api.post(url, json={}).json() == {"first_step": 0, "last_step": 19}
    record_steps(run)
    run.post_all(api)
    assert api.post(url, json={"steps": 5}).json() == {"first_step": STEPS, "last_step": STEPS + 4}
    assert asked.read(tmp_path / asked.FILE) == [(0, 19), (STEPS, STEPS + 4)]


def test_what_does_not_run_cannot_be_recorded(api: TestClient, run: Posted) -> None:
    queued = submit(api, "queued")["id"]
    refused = api.post(f"/api/v1/jobs/{queued}/record", json={})
    assert refused.status_code == 409
    assert "only a job that runs" in refused.json()["detail"]
    assert api.post("/api/v1/jobs/nowhere/record", json={}).status_code == 404
    assert api.post(f"/api/v1/jobs/{run.job_id}/record", json={"steps": 0}).status_code == 422
    end_attempt(api, run)
    assert api.post(f"/api/v1/jobs/{run.job_id}/record", json={}).status_code == 409


def test_a_directory_that_is_gone_is_named(api: TestClient, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    run = start_attempt(api, submit(api, "gone")["id"], gone)
    refused = api.post(f"/api/v1/jobs/{run.job_id}/record", json={})
    assert refused.status_code == 409
    assert str(gone) in refused.json()["detail"]


def test_a_job_says_where_detail_is_missing(api: TestClient, run: Posted) -> None:
    assert api.get(f"/api/v1/jobs/{run.job_id}").json()["attempts"][0]["dropped"] == []
    record_steps(run)
    for body in run.batches:
        whole = wire.decode(body)
        assert run.post(api, wire.encode(whole.without_detail())).status_code == 200
        later = replace(whole, sequence=1, tables={}, dropped=7, dropped_steps=(STEPS, STEPS + 2))
        assert run.post(api, wire.encode(later)).status_code == 200
    found = api.get(f"/api/v1/jobs/{run.job_id}").json()["attempts"][0]["dropped"]
    assert [(row["party"], row["first_step"], row["last_step"], row["events"]) for row in found] == [
        (f"worker {worker}", 0, STEPS + 2, 2 * STEPS + 7) for worker in (0, 1)
    ]
    assert found[0]["text"].startswith(f"worker 0: detail of steps 0 to {STEPS + 2} was dropped (47 events)")


def test_a_recorder_and_the_service_read_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / asked.FILE
    watcher = asked.AskedSteps(file)
    assert watcher.news() == []
    first = asked.added(None, (3, 5))
    LocalFiles(str(tmp_path)).write(asked.FILE, asked.added(first, (9, 9)))
    assert json.loads(file.read_text()) == [[3, 5], [9, 9]]
    assert watcher.news() == [(3, 5), (9, 9)]
    assert watcher.news() == []
