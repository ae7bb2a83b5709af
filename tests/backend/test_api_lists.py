"""Every list: pages that fit together, filters, chosen fields, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.backend.job_specs import JSON, submit
from tests.backend.posted_run import STEPS, Posted, end_attempt, record_steps, start_attempt

SMALL_IMAGES = {"name": "synthetic", "options": {"shape": [1, 8, 8]}}


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    """A job with one attempt, its events posted."""
    posted = start_attempt(api, submit(api, "listed")["id"], tmp_path_factory.mktemp("attempt"))
    record_steps(posted)
    posted.post_all(api)
    end_attempt(api, posted)
    return posted


def get(api: TestClient, path: str, **query: Any) -> dict[str, Any]:
    answer = api.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def pages(api: TestClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """Every page of a list."""
    found = [get(api, path, **query)]
    while found[-1]["next_cursor"] is not None:
        found.append(get(api, path, **query, cursor=found[-1]["next_cursor"]))
    return found


def test_the_history_is_that_of_the_job_and_of_its_attempts(api: TestClient, run: Posted) -> None:
    path = f"jobs/{run.job_id}/history"
    whole = get(api, path)["items"]
    in_pieces = [row for page in pages(api, path, limit=2) for row in page["items"]]
    assert in_pieces == whole
    assert [row["to_state"] for row in get(api, path, attempt=0)["items"]] == [
        row["to_state"] for row in api.get(f"/api/v1/jobs/{run.job_id}").json()["history"]
    ]
    assert {row["attempt"] for row in get(api, path, attempt=1)["items"]} == {1}
    assert get(api, path, attempt=7)["items"] == []
    ended = get(api, path, to_state="succeeded")["items"]
    assert {(row["attempt"], row["reason"]) for row in ended} == {(None, "completed"), (1, "completed")}


def test_attempts_are_a_list(api: TestClient, run: Posted) -> None:
    path = f"jobs/{run.job_id}/attempts"
    assert get(api, path)["items"] == api.get(f"/api/v1/jobs/{run.job_id}").json()["attempts"]
    assert get(api, path, state="failed,cancelled")["items"] == []
    assert get(api, path, fields="number,parties")["items"] == [
        {"number": 1, "parties": ["worker 0", "worker 1"]}
    ]


def test_pages_of_events_put_together_are_all_events_in_order(api: TestClient, run: Posted) -> None:
    path = f"jobs/{run.job_id}/events"
    whole = get(api, path, step_from=0, limit=20_000)
    assert (whole["truncated"], whole["next_cursor"]) == (False, None)
    assert len(whole["step"]) == STEPS * 2 * 2
    columns = [name for name, value in whole.items() if isinstance(value, list)][:12]
    for limit in (7, 16):  # also where many events begin at the same time
        found = pages(api, path, step_from=0, limit=limit)
        assert all(page["truncated"] for page in found[:-1])
        for name in columns:
            assert [value for page in found for value in page[name]] == whole[name], name


def test_events_are_filtered(api: TestClient, run: Posted) -> None:
    path = f"jobs/{run.job_id}/events"
    sends = get(api, path, step_from=2, step_to=3, kind="send", worker=1)
    assert (set(sends["kind"]), set(sends["worker"]), sends["step"]) == ({"send"}, {1}, [2, 3])
    assert get(api, path, kind="wait,receive")["step"] == []
    assert get(api, path, layer=1)["step"] == []
    assert len(get(api, path, layer=0, limit=20_000)["step"]) == 10 * 2 * 2  # the ten newest steps
    few = get(api, path, fields="kind,start_ns")
    assert set(few) == {
        "kind",
        "start_ns",
        "rehearsed",
        "slowed",
        "newest_step",
        "layers",
        "layer_names",
        "parties",
        "kinds",
        "truncated",
        "next_cursor",
    }


def test_the_names_of_metrics_are_a_list(api: TestClient, run: Posted) -> None:
    listed = get(api, f"jobs/{run.job_id}/metrics/names")["items"]
    assert {"name": "test_accuracy", "last_step": STEPS - 1} in listed
    assert {entry["name"] for entry in listed} == set(get(api, f"jobs/{run.job_id}/metrics")["series"])
    waiting = submit(api, "has none")["id"]
    assert get(api, f"jobs/{waiting}/metrics/names") == {"items": []}


def test_jobs_are_filtered_by_what_they_are_and_when_they_were_made(api: TestClient) -> None:
    baseline = submit(api, "sorted first")
    job = submit(api, "sorted second", baseline=baseline["id"], data=SMALL_IMAGES)
    rehearsal = submit(api, "sorted third", fidelity="rehearse")

    def names(**query: Any) -> list[str]:
        return [row["name"] for row in get(api, "jobs", text="sorted", **query)["items"]]

    assert names(dataset="synthetic") == ["sorted second"]
    assert names(baseline=baseline["id"]) == ["sorted second"]
    assert names(rehearsed=True) == ["sorted third"]
    assert names(rehearsed=False) == ["sorted second", "sorted first"]
    assert names(created_from=job["created_at"]) == ["sorted third", "sorted second"]
    assert names(created_to=job["created_at"]) == ["sorted first"]
    assert names(created_from=job["created_at"], created_to=rehearsal["created_at"]) == ["sorted second"]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert names(created_from=tomorrow.isoformat()) == []
    assert names(created_to=tomorrow.replace(tzinfo=None).isoformat(), limit=1) == ["sorted third"]
    assert len(names(created_from="0001-01-01T00:00:00", created_to="9999-12-31T23:59:59")) == 3


def test_items_hold_the_chosen_fields_only(api: TestClient, run: Posted) -> None:
    page = get(api, "jobs", text="listed", fields="id, name,state")
    assert page == {
        "items": [{"id": run.job_id, "name": "listed", "state": "succeeded"}],
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("path", "query", "field", "remedy"),
    [
        ("jobs", {"fields": "id,stat"}, "fields", "'state'"),
        ("jobs", {"stratgy": "p3"}, "stratgy", ""),
        ("jobs", {"created_from": "yesterday"}, "created_from", ""),
        ("jobs/{id}/attempts", {"state": "gone"}, "state", "succeeded"),
        ("jobs/{id}/attempts", {"cursor": "MTphYmM"}, "cursor", "next_cursor"),
        ("jobs/{id}/history", {"to_state": "gone"}, "to_state", "succeeded"),
        ("jobs/{id}/events", {"kind": "recieve"}, "kind", "'receive'"),
        ("jobs/{id}/events", {"cursor": "MTox"}, "cursor", "next_cursor"),
        ("jobs/{id}/events", {"fields": "start"}, "fields", "start_ns"),
    ],
)
def test_what_a_list_cannot_answer_is_refused(
    api: TestClient, run: Posted, path: str, query: dict[str, str], field: str, remedy: str
) -> None:
    answer = api.get(f"/api/v1/{path.format(id=run.job_id)}", params=query)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert remedy in error["remedy"]


def test_a_resource_says_which_methods_it_has(api: TestClient) -> None:
    answer = api.request("DELETE", "/api/v1/jobs/nobody/plan", headers=JSON)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].endswith("this resource only has GET, HEAD")


def test_a_body_that_is_too_large_is_told_the_limit(api: TestClient) -> None:
    body = b"x" * ((1 << 20) + 1)
    for content in (body, iter([body])):  # with its length, and without
        answer = api.post("/api/v1/plans", content=content, headers=JSON)
        assert answer.status_code == 413
        assert str(1 << 20) in answer.json()["detail"]
        assert "Send less" in answer.json()["detail"]


def test_a_summary_says_that_it_is_a_rehearsals(api: TestClient, run: Posted) -> None:
    rehearsal = submit(api, "labelled", fidelity="rehearse")
    label = get(api, f"jobs/{rehearsal['id']}/summary")["rehearsed"]
    assert label == rehearsal["rehearsed"]
    assert label.startswith("rehearsed")
    assert get(api, f"jobs/{run.job_id}/summary")["rehearsed"] is None
