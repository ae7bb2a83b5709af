"""Jobs over the API: submit, idempotency, lists, cancel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from backend.services.asker import Asker
from backend.services.errors import Left
from engine import preview
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.simulate import declared
from tests.backend.job_specs import JSON, job_spec, submit


def test_a_submission_answers_the_job_with_its_plan(api: TestClient) -> None:
    answer = api.post("/api/v1/jobs", json=job_spec("first"))
    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["name"], job["state"], job["strategy"], job["workers"]) == ("first", "queued", "p3", 2)
    assert [layer["row"]["layer"] for layer in job["plan"]["layers"]] == ["1", "3", "5"]
    assert all(layer["plan"]["order"]["rank"] == "priority" for layer in job["plan"]["layers"])
    assert job["plan"]["wire_bytes_per_step"] == sum(
        layer["row"]["wire_bytes"] for layer in job["plan"]["layers"]
    )
    assert job["history"][0]["to_state"] == "queued"
    assert api.get(answer.headers["location"]).json() == job


def test_the_preview_is_the_plan_that_a_submission_gets(api: TestClient) -> None:
    shown = api.post("/api/v1/plans", json=job_spec())
    assert shown.status_code == 200
    before = len(api.get("/api/v1/jobs").json()["items"])
    job = submit(api)
    assert job["plan"] == shown.json()
    assert api.get(f"/api/v1/jobs/{job['id']}/plan").json() == shown.json()
    assert len(api.get("/api/v1/jobs").json()["items"]) == before + 1


def test_a_plan_that_takes_minutes_to_tell_is_refused(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many workers and many layers that are not alike, one step is millions of messages."""
    monkeypatch.setattr(preview, "MOST_MESSAGES", 10)
    before = api.get("/api/v1/jobs").json()["items"]
    for path in ("/api/v1/plans", "/api/v1/jobs"):
        answer = api.post(path, json=job_spec())
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert (error["field"], error["value"]) == ("cluster.workers", 2)
        assert "more than 10 messages" in error["rule"]
        assert "Use fewer workers" in error["remedy"]
    assert api.get("/api/v1/jobs").json()["items"] == before


def test_who_has_left_is_not_counted_for(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan, the messages that tell its bytes, which may take twenty seconds; its model is described all the
    same."""
    monkeypatch.setattr(declared, "CHECKED_EVERY", 10)
    application = api.app
    assert isinstance(application, FastAPI)
    context = application.state.context
    spec = from_plain(JobSpec, job_spec())
    with closing(Asker()) as asker:
        assert context.jobs.preview(spec, asker) == context.jobs.preview(spec)
        asker.leave()
        with pytest.raises(Left):
            context.jobs.preview(spec, asker)
        with pytest.raises(Left):
            context.jobs.submit(spec, None, asker)


def test_a_composed_job_says_which_override_set_what(api: TestClient) -> None:
    job = submit(api, overrides=[{"layers": "3", "exchange": "ring-allreduce"}])
    assert (job["strategy"], job["planned_by"]) == ("p3", "p3 + 1 override")
    assert job["plan"]["notes"] == [
        "overrides.0: layers named 3 [3 (Linear)]: exchange ring-allreduce",
        "Slices have up to 50,000 elements (slice_size: auto): this model is too small for longer ones",
    ]
    assert [layer["plan"]["overrides"] for layer in job["plan"]["layers"]] == [[], [0], []]
    assert [layer["row"]["update"] for layer in job["plan"]["layers"]] == ["server", "worker", "server"]
    assert submit(api)["planned_by"] == "p3"


def test_a_peer_has_a_plan_without_layers(api: TestClient) -> None:
    plan = submit(api, strategy={"name": "ddp"})["plan"]
    assert (plan["peer"], plan["layers"], plan["wire_bytes_per_step"]) == ("ddp", [], None)


def test_defaults_are_stored_with_the_job(api: TestClient) -> None:
    spec = submit(api)["spec"]
    assert spec["optimizer"]["name"] == "sgd"
    assert spec["evaluation"] == {"every_epochs": 1.0, "every_steps": None, "at_end": True}


def test_the_same_key_answers_the_same_job(api: TestClient) -> None:
    key = {"Idempotency-Key": "once"}
    first = api.post("/api/v1/jobs", json=job_spec("once"), headers=key)
    again = api.post("/api/v1/jobs", json=job_spec("once"), headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_the_same_key_with_another_body_is_a_conflict(api: TestClient) -> None:
    key = {"Idempotency-Key": "twice"}
    first = api.post("/api/v1/jobs", json=job_spec("one"), headers=key).json()
    refused = api.post("/api/v1/jobs", json=job_spec("other"), headers=key)
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["field"] == "Idempotency-Key"
    assert first["id"] in refused.json()["detail"]


def test_submissions_at_the_same_time_under_one_key_make_one_job(api: TestClient) -> None:
    def post(_: int) -> str:
        answer = api.post("/api/v1/jobs", json=job_spec("raced"), headers={"Idempotency-Key": "raced"})
        assert answer.status_code in {200, 201}
        return str(answer.json()["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(post, range(8)))) == 1
    assert len(api.get("/api/v1/jobs", params={"text": "raced"}).json()["items"]) == 1


def test_pages_neither_skip_nor_repeat_while_jobs_arrive(api: TestClient) -> None:
    made = [submit(api, f"page {i}")["id"] for i in range(5)]
    seen: list[str] = []
    query: dict[str, str | int] = {"text": "page", "limit": 2}
    while True:
        page = api.get("/api/v1/jobs", params=query).json()
        seen += [job["id"] for job in page["items"]]
        submit(api, "page that came later")
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == made[::-1]


def test_lists_are_filtered(api: TestClient) -> None:
    ring = submit(api, "filtered 100%", strategy={"name": "ring-allreduce"})
    submit(api, "filtered 100 others")

    def ids(**query: str) -> list[str]:
        return [job["id"] for job in api.get("/api/v1/jobs", params=query).json()["items"]]

    assert ids(strategy="ring-allreduce") == [ring["id"]]
    assert ids(text="100%") == [ring["id"]]  # no wildcard
    assert ids(text=ring["id"]) == [ring["id"]]
    assert ids(text="filtered", model="mlp", state="queued,running") != []
    assert ids(text="filtered", model="cnn") == []
    assert ids(text="filtered", state="succeeded") == []


def test_a_queued_job_is_cancelled_at_once_and_only_once(api: TestClient) -> None:
    job = submit(api)
    ended = api.post(f"/api/v1/jobs/{job['id']}/cancel", headers=JSON).json()
    assert (ended["state"], ended["reason"]) == ("cancelled", "cancelled")
    assert ended["ended_at"] is not None
    assert [row["to_state"] for row in ended["history"]] == ["queued", "cancelled"]
    assert api.post(f"/api/v1/jobs/{job['id']}/cancel", headers=JSON).json() == ended


def test_a_job_names_its_baseline(api: TestClient) -> None:
    baseline = submit(api, strategy={"name": "single"}, cluster={"workers": 1})
    job = submit(api, baseline=baseline["id"])
    assert job["baseline_id"] == baseline["id"]
    faster = api.get(f"/api/v1/jobs/{job['id']}/summary").json()["speed_up"]
    assert (faster["baseline_id"], faster["value"], faster["comparable"]) == (baseline["id"], None, True)
    assert "throughput" in faster["why_not"]


def test_health_counts_jobs(api: TestClient) -> None:
    before = api.get("/api/v1/health").json()
    submit(api)
    after = api.get("/api/v1/health").json()
    database = api.app.state.context.database  # type: ignore[attr-defined]
    kind = make_url(database.url).get_backend_name()
    assert (before["status"], before["database"]) == ("ok", kind)
    assert after["jobs"]["queued"] == before["jobs"]["queued"] + 1
