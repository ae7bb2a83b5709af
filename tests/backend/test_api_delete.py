"""Jobs are deleted with all that was recorded of them, and cloned."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from backend.db.models import Attempt, Base, Batch, LayerTotal, LinkBin, StepRow
from backend.executors.attempt_files import FilesAwayError
from backend.executors.local_files import LocalFiles
from backend.services import removal
from tests.backend.job_specs import JSON, submit
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt

REQUESTS = 12
"""In which much telemetry is deleted, at least: each goes through all that is left, to count it."""


@pytest.fixture(autouse=True)
def one_request_deletes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(removal, "WITHIN_S", 3600.0)


def posted(api: TestClient, directory: Path, **changes: Any) -> Posted:
    """A job that ended, with telemetry and a directory."""
    run = start_attempt(api, submit(api, **changes)["id"], directory)
    (directory / "logs").mkdir(parents=True)
    (directory / "logs" / "worker-0.log").write_text("hello")
    record_steps(run)
    run.post_all(api)
    end_attempt(api, run)
    return run


def rows(api: TestClient, attempt: int) -> dict[str, int]:
    """How much is held of an attempt, by table."""
    held = [table for table in Base.metadata.tables.values() if "attempt_id" in table.columns]
    with api.app.state.context.database.read() as session:  # type: ignore[attr-defined]
        return {
            table.name: session.scalar(select(func.count()).where(table.c.attempt_id == attempt))
            for table in held
        }


def delete(api: TestClient, job_id: str) -> Any:
    return api.delete(f"/api/v1/jobs/{job_id}", headers=JSON)


@pytest.mark.parametrize("portion", [3, removal.PORTION])
def test_a_deleted_job_leaves_nothing(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(removal, "PORTION", portion)
    monkeypatch.setattr(removal, "PORTION_OF_BATCHES", portion)
    kept = posted(api, tmp_path / "kept" / "1")
    gone = posted(api, tmp_path / "gone" / "1")
    before = rows(api, kept.attempt)
    assert rows(api, gone.attempt) == before
    held = (Batch, StepRow, LayerTotal, LinkBin)
    assert all(before[model.__tablename__] > 3 or model is Batch for model in held)
    assert delete(api, gone.job_id).status_code == 204
    assert set(rows(api, gone.attempt).values()) == {0}
    assert rows(api, kept.attempt) == before
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "kept" / "1" / "logs" / "worker-0.log").exists()
    assert api.get(f"/api/v1/jobs/{gone.job_id}").status_code == 404
    assert delete(api, gone.job_id).status_code == 404
    with api.app.state.context.database.read() as session:  # type: ignore[attr-defined]
        assert session.get(Attempt, gone.attempt) is None


def test_a_jobs_checkpoints_go_with_it_and_no_others(api: TestClient, tmp_path: Path) -> None:
    for parent, gone in (("of another", False), ("", True)):
        job_id = submit(api)["id"]
        folder = tmp_path / (parent or job_id)
        run = start_attempt(api, job_id, folder / "1")
        (folder / "1").mkdir(parents=True)
        checkpoint = folder / "checkpoints" / "step-0000000004"
        checkpoint.mkdir(parents=True)
        (checkpoint / "worker-0.safetensors").write_bytes(b"0")
        end_attempt(api, run)
        assert delete(api, job_id).status_code == 204
        assert folder.exists() != gone


def test_much_telemetry_goes_in_several_requests(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = posted(api, tmp_path / "much" / "1")
    portion = sum(rows(api, run.attempt).values()) // REQUESTS
    monkeypatch.setattr(removal, "PORTION", portion)
    monkeypatch.setattr(removal, "WITHIN_S", -1.0)
    left: list[int] = []
    while (answer := delete(api, run.job_id)).status_code == 202:
        part = answer.json()
        assert part["rows_deleted"] > 0
        assert not left or part["rows_deleted"] + part["rows_left"] == left[-1]
        left.append(part["rows_left"])
        job = api.get(f"/api/v1/jobs/{run.job_id}").json()
        assert job["message"].startswith("partly deleted"), "it does not look whole"
    assert answer.status_code == 204
    assert left[-1] > 0
    assert len(left) >= REQUESTS - 1, "a portion each, and the last one says nothing more"
    assert api.get(f"/api/v1/jobs/{run.job_id}").status_code == 404
    assert set(rows(api, run.attempt).values()) == {0}


def test_only_what_has_ended_is_deleted(api: TestClient) -> None:
    job = submit(api)
    refused = delete(api, job["id"])
    assert refused.status_code == 409
    assert "is queued: only a job that has ended can be deleted. Cancel it first" in refused.json()["detail"]
    api.post(f"/api/v1/jobs/{job['id']}/cancel", headers=JSON)
    assert delete(api, job["id"]).status_code == 204


def test_files_out_of_reach_are_said_to_be_so_and_keep_the_job_whole(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = posted(api, tmp_path / "away" / "1")
    before = rows(api, run.attempt)
    job = f"/api/v1/jobs/{run.job_id}"
    with monkeypatch.context() as patched:
        for name in ("there", "size", "checkpoints"):
            patched.setattr(LocalFiles, name, _away)
        answers = [delete(api, run.job_id), api.get(f"{job}/logs"), api.get(f"{job}/checkpoints")]
    for answer in answers:
        assert answer.status_code == 503
        assert "lies on node-2, which this server does not reach" in answer.json()["detail"]
    assert rows(api, run.attempt) == before
    assert api.get(f"{job}/logs").json()["text"] == "hello"


def _away(files: LocalFiles, *_: object) -> NoReturn:
    raise FilesAwayError(files.directory, "node-2", "it has not answered for 10 s")


def test_files_that_cannot_be_removed_keep_the_job(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = posted(api, tmp_path / "stuck" / "1")
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", _refusing)
        refused = delete(api, run.job_id)
    assert refused.status_code == 409
    assert "Remove it, then delete the job again" in refused.json()["detail"]
    assert delete(api, run.job_id).status_code == 204


def _refusing(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_who_was_compared_with_a_deleted_job_keeps_what_was_measured(api: TestClient, tmp_path: Path) -> None:
    baseline = posted(api, tmp_path / "baseline" / "1", name="the first", cluster={"workers": 2})
    run = posted(api, tmp_path / "faster" / "1", baseline=baseline.job_id)
    before = api.get(f"/api/v1/jobs/{run.job_id}").json()
    assert before["speed_up"] is not None
    assert delete(api, baseline.job_id).status_code == 204
    after = api.get(f"/api/v1/jobs/{run.job_id}").json()
    assert (after["baseline_id"], after["speed_up"]) == (None, before["speed_up"])
    assert after["speed_up_caveat"] == "the baseline was deleted: this was measured before"
    kept = api.get(f"/api/v1/jobs/{run.job_id}/summary").json()
    assert (kept["speed_up"]["baseline_id"], kept["speed_up"]["baseline_name"]) == (None, "the first")
    drawn = api.get(f"/api/v1/jobs/{run.job_id}/figures/speed-up").json()
    assert drawn["layout"]["meta"]["speed_up"] == before["speed_up"]
    assert "the first, its baseline" in drawn["layout"]["meta"]["alt"]
    assert after["revision"] > before["revision"]
    again = api.post(f"/api/v1/jobs/{run.job_id}/clone", json={})
    assert (again.status_code, again.json()["baseline_id"]) == (201, None)


def test_a_clone_is_the_same_job_but_for_its_name_and_the_changes(api: TestClient) -> None:
    first = submit(api, "digits", strategy={"name": "p3", "options": {"codec": "fp16"}}, priority=3)
    same = api.post(f"/api/v1/jobs/{first['id']}/clone", json={})
    assert same.status_code == 201
    assert same.headers["location"] == f"/api/v1/jobs/{same.json()['id']}"
    assert same.json()["spec"] == first["spec"] | {"name": "digits (again)"}
    changes = {"name": "other", "strategy": {"name": "ring-allreduce", "options": None}, "priority": None}
    other = api.post(f"/api/v1/jobs/{first['id']}/clone", json=changes).json()["spec"]
    assert (other["name"], other["strategy"], other["priority"]) == (
        "other",
        {"name": "ring-allreduce", "options": {}},
        0,
    )
    assert other["training"] == first["spec"]["training"]


def test_a_clone_that_cannot_run_names_its_field(api: TestClient) -> None:
    first = submit(api)
    refused = api.post(f"/api/v1/jobs/{first['id']}/clone", json={"cluster": {"workers": 0}})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "cluster.workers"
    assert api.post("/api/v1/jobs/nobody/clone", json={}).status_code == 404


def test_a_clone_repeated_under_its_key_is_one_job(api: TestClient) -> None:
    url = f"/api/v1/jobs/{submit(api)['id']}/clone"
    first, second = (api.post(url, json={}, headers={"Idempotency-Key": "one clone"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
