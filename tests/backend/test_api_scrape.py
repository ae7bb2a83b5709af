"""`GET /metrics`, read by the library's own parsers: what it says equals what the API says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from backend.services import scrape
from engine.telemetry.events import Kind
from tests.backend.guarded import TOKEN, browser
from tests.backend.job_specs import submit
from tests.backend.posted_run import record_steps, start_attempt
from tests.backend.recorded_run import Run, record_run

Samples = dict[str, list[Sample]]


def read(api: TestClient, accept: str = "text/plain") -> Samples:
    answer = api.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(accept)
    opened = accept != "text/plain"
    parse = open_parser.text_string_to_metric_families if opened else text_string_to_metric_families
    found: Samples = defaultdict(list)
    for family in parse(answer.text):
        assert family.documentation
        for sample in family.samples:
            found[sample.name].append(sample)
    return found


def value(found: Samples, metric: str, /, **labels: str) -> float:
    fits = [one for one in found[metric] if labels.items() <= one.labels.items()]
    assert len(fits) == 1, (metric, labels, found[metric])
    return fits[0].value


@pytest.fixture(scope="module")
def run(api: TestClient) -> Run:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    return record_run(database, "p3", priority=True, slices=4, state="running")


def test_what_a_job_does_is_what_the_api_says(api: TestClient, run: Run) -> None:
    found = read(api)
    (row,) = api.get("/api/v1/jobs", params={"text": run.job_id}).json()["items"]
    one = {"job": run.job_id, "name": "p3", "strategy": "p3"}
    assert value(found, "trainyard_job_steps", **one) == row["step"]
    assert value(found, "trainyard_job_samples_per_second", **one) == pytest.approx(row["samples_per_s"])
    assert value(found, "trainyard_job_iteration_seconds", **one) == pytest.approx(row["iteration_ms"] / 1e3)
    waited = [
        np.median([run.parts[w, step]["exposed"] for step in range(5, row["step"] - 1)]) for w in (0, 1)
    ]
    share = max(waited) / row["iteration_ms"]
    assert value(found, "trainyard_job_exposed_ratio", **one) == pytest.approx(share, rel=1e-3)
    assert value(found, "trainyard_job_info", state="running", **one) == 1

    links = api.get(f"/api/v1/jobs/{run.job_id}/links", params={"bins": 1}).json()["links"]
    assert len(links) == 6  # two workers and a server, both ways
    sent = 0
    for link in links:
        moved = sum(link["other_bytes"]) + sum(sum(layer["bytes"]) for layer in link["layers"])
        of = {"link": f"{link['party_name']} transport", "direction": link["direction"], **one}
        assert value(found, "trainyard_job_link_bytes_total", **of) == moved
        assert 0 < value(found, "trainyard_job_link_utilization_ratio", **of) < 2  # counted before the limit
        sent += moved if link["direction"] == "send" else 0
    assert value(found, "trainyard_job_wire_bytes_total", **one) == sent
    assert sent >= sum(event["bytes"] for event in run.events if event["kind"] == Kind.SEND)


def test_the_service_counts_what_waits_and_what_it_answers(api: TestClient, tmp_path: Path) -> None:
    waits = submit(api, "waits")
    before = read(api)
    posted = start_attempt(api, submit(api, "posts")["id"], tmp_path)
    record_steps(posted)
    posted.post_all(api)
    assert api.get("/api/v1/jobs/nobody").status_code == 404
    assert api.get("/api/v1/nowhere").status_code == 404
    found = read(api)
    assert value(found, "trainyard_jobs", state="queued") >= 1
    assert sum(one.value for one in found["trainyard_queue_jobs"]) == value(
        found, "trainyard_jobs", state="queued"
    )
    assert value(found, "trainyard_queue_oldest_seconds") > 0
    held, free = (value(found, "trainyard_devices", kind="cpu", state=state) for state in ("held", "free"))
    assert (held, free) == (2, 2)  # of the job whose telemetry was posted
    assert not [one for one in found["trainyard_job_steps"] if one.labels["job"] == waits["id"]]
    answers = "trainyard_http_requests_total"
    assert value(found, answers, operation="show_job", status="404") == 1
    assert value(found, answers, operation="none", status="404") == 1
    assert value(found, answers, operation="scrape_metrics", status="200") >= 1
    assert value(found, "trainyard_http_request_duration_seconds_count", operation="show_job") >= 1
    batches = "trainyard_ingest_batches_total"
    assert value(found, batches) > value(before, batches)
    assert value(found, "trainyard_ingest_lag_seconds_count") > value(
        before, "trainyard_ingest_lag_seconds_count"
    )
    kind = api.get("/api/v1/health").json()["database"]
    assert value(found, "trainyard_build_info", database=kind) == 1


def test_only_jobs_that_run_and_the_last_that_ended_have_series(
    api: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape, "LAST_ENDED", 1)
    database = api.app.state.context.database  # type: ignore[attr-defined]
    ended = [
        record_run(database, name, steps=2, started=10**9 * (3 + i)) for i, name in enumerate(("a", "b"))
    ]
    shown = {one.labels["job"] for one in read(api)["trainyard_job_info"]}
    assert run.job_id in shown
    assert shown & {one.job_id for one in ended} == {ended[1].job_id}


def test_openmetrics_says_the_same(api: TestClient, run: Run) -> None:
    text, opened = read(api), read(api, "application/openmetrics-text")
    one = {"job": run.job_id}
    for name in ("trainyard_job_wire_bytes_total", "trainyard_job_loss"):
        assert value(text, name, **one) == value(opened, name, **one)


def test_a_server_that_asks_wants_a_token_of_prometheus(guarded: FastAPI, stranger: TestClient) -> None:
    for address in ("/metrics", "/api/v1/metrics"):
        assert stranger.get(address).status_code == 401
        shown = browser(guarded).get(address, headers={"Authorization": f"Bearer {TOKEN}"})
        assert shown.status_code == 200
        assert "trainyard_build_info" in shown.text
