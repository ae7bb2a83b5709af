"""What people say of jobs, in which order lists are, and the groups that jobs fall into."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.db import WriterError, models
from backend.services.racing import Racing
from backend.services.sorting import COLUMNS
from tests.backend.job_specs import job_spec, submit
from tests.backend.posted_run import end_attempt, record_steps, start_attempt

NAMES = ("ordered b", "Ordered a", "ordered c", "ordered d", "ordered e")
SLOWER = {"ordered b": 2, "Ordered a": 1, "ordered c": 3}
"""The last two never run: they have no figures."""


@pytest.fixture(scope="module")
def ordered(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids by name: three jobs that ran at different speeds, and two that wait."""
    ids = {}
    for place, name in enumerate(NAMES):
        ids[name] = submit(api, name, priority=place % 2)["id"]
        if name in SLOWER:
            posted = start_attempt(api, ids[name], tmp_path_factory.mktemp("attempt"))
            record_steps(posted, slower=SLOWER[name])
            posted.post_all(api)
            end_attempt(api, posted)
    api.app.state.context.job_figures.look()  # type: ignore[attr-defined]
    return ids


def names(api: TestClient, **query: Any) -> list[str]:
    """Of all pages."""
    found, cursor = [], None
    while True:
        after = {} if cursor is None else {"cursor": cursor}
        answer = api.get("/api/v1/jobs", params={"text": "ordered", **after, **query})
        assert answer.status_code == 200, answer.text
        found += [row["name"] for row in answer.json()["items"]]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


def patch(api: TestClient, job_id: str, **said: Any) -> Any:
    return api.patch(f"/api/v1/jobs/{job_id}", json=said)


# --- the order ---


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_lists_are_in_the_order_that_is_asked_for(
    api: TestClient, ordered: dict[str, str], limit: int
) -> None:
    by_speed = ["Ordered a", "ordered b", "ordered c"]
    assert names(api, sort="-samples_per_s", limit=limit) == [*by_speed, "ordered e", "ordered d"]
    assert names(api, sort="samples_per_s", limit=limit) == [*by_speed[::-1], "ordered d", "ordered e"]
    assert names(api, sort="name", limit=limit) == sorted(NAMES, key=str.lower)
    assert names(api, sort="-name", limit=limit) == sorted(NAMES, key=str.lower, reverse=True)
    assert names(api, sort="created_at", limit=limit) == list(NAMES)
    assert names(api, sort="-created_at", limit=limit) == names(api, limit=limit) == list(NAMES)[::-1]
    assert names(api, sort="state", limit=limit)[:2] == ["ordered d", "ordered e"]
    assert names(api, sort="-priority", limit=limit)[:2] == ["ordered d", "Ordered a"]


@pytest.mark.parametrize("column", COLUMNS)
def test_pages_of_every_order_put_together_are_the_whole_list(
    api: TestClient, ordered: dict[str, str], column: str
) -> None:
    for sort in (column, f"-{column}"):
        whole = names(api, sort=sort)
        assert sorted(whole) == sorted(NAMES)
        assert names(api, sort=sort, limit=1) == whole


def test_a_cursor_holds_any_name(api: TestClient) -> None:
    """As many characters as decide a place, each of which takes most bytes."""
    for _ in range(3):
        submit(api, "\N{STEAM LOCOMOTIVE}" * 200)
    found = names(api, text="\N{STEAM LOCOMOTIVE}", sort="name", limit=1)
    assert len(found) == 3


def test_a_writer_that_was_too_busy_once_does_not_end_the_storing(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = api.app.state.context  # type: ignore[attr-defined]
    whole, refused = context.database.writer.run, []

    def run(write: Any, **options: Any) -> Any:
        if threading.current_thread().name == "job-figures" and not refused:
            refused.append(write)
            raise WriterError("write transaction not done after 60 s")
        return whole(write, **options)

    monkeypatch.setattr(context.job_figures.watch, "pace_s", 0.05)
    monkeypatch.setattr(context.job_figures.watch, "again_s", 0.05)
    monkeypatch.setattr(context.database.writer, "run", run)
    job_id = submit(api, "busy")["id"]
    posted = start_attempt(api, job_id, tmp_path)
    deadline = time.monotonic() + 60
    while True:
        with context.database.read() as session:
            if session.get(models.JobFigures, job_id) is not None:
                break
        assert time.monotonic() < deadline, "the figures of a job are not stored any more"
        time.sleep(0.05)
    assert refused
    end_attempt(api, posted)


def test_the_order_follows_what_the_rows_say(api: TestClient, ordered: dict[str, str]) -> None:
    rows = api.get("/api/v1/jobs", params={"text": "ordered", "sort": "-samples_per_s"}).json()["items"]
    speeds = [row["samples_per_s"] for row in rows]
    assert speeds[:3] == sorted(speeds[:3], reverse=True)
    assert all(speeds[:3])
    assert speeds[3:] == [None, None]


@pytest.mark.parametrize(
    "inside",
    [
        ["name", 1, "a", "x"],
        ["-loss", 1, 0.5, "x"],
        ["loss", 1, "a", "x"],
        ["loss", 1, True, "x"],
        ["loss", 1, float("nan"), "x"],
        ["loss", 10**300, 0.5, "x"],
        ["loss", 1, 0.5, "a\0"],
        ["loss", 1, 0.5],
        "loss",
    ],
)
def test_a_cursor_of_another_order_is_refused(api: TestClient, inside: Any) -> None:
    cursor = base64.urlsafe_b64encode(b"1:" + json.dumps(inside).encode()).decode().rstrip("=")
    answer = api.get("/api/v1/jobs", params={"sort": "loss", "cursor": cursor})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "cursor"


def test_an_unknown_column_is_refused_with_the_known_ones(api: TestClient) -> None:
    answer = api.get("/api/v1/jobs", params={"sort": "-los"})
    assert answer.status_code == 422
    assert "'loss'" in answer.json()["errors"][0]["remedy"]


# --- tags and notes ---


def test_a_job_has_tags_and_a_note(api: TestClient) -> None:
    job = submit(api, "labelled")
    assert (job["tags"], job["note"]) == ([], None)
    answer = patch(api, job["id"], tags=["wide", " nightly ", "wide"], note="  looks good\nso far ")
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["tags"], said["note"]) == (["nightly", "wide"], "looks good\nso far")
    assert said["revision"] == job["revision"] + 1
    assert patch(api, job["id"], tags=["wide"]).json()["note"] == "looks good\nso far", "left out: it stays"
    found = api.get("/api/v1/jobs", params={"tag": "wide"}).json()["items"]
    assert [row["name"] for row in found] == ["labelled"]
    assert api.get("/api/v1/jobs", params={"tag": "nightly"}).json()["items"] == []
    again = patch(api, job["id"], tags=["wide"]).json()
    assert again["revision"] == said["revision"] + 1, "the same tags once more change nothing"
    assert patch(api, job["id"], note="").json()["note"] is None
    tagged = {row["name"] for row in api.get("/api/v1/jobs", params={"tagged": True}).json()["items"]}
    assert tagged == {"labelled"}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"tags": ["a,b"]}, "tags.0"),
        ({"tags": ["fine", "  "]}, "tags.1"),
        ({"tags": ["x" * 51]}, "tags.0"),
        ({"tags": ["two\nlines"]}, "tags.0"),
        ({"tags": [f"tag {i}" for i in range(21)]}, "tags"),
        ({"tags": ["\N{RIGHT-TO-LEFT OVERRIDE}"]}, "tags.0"),
        ({"tags": ["\N{DEVANAGARI LETTER QA}" * 50]}, "tags.0"),
        ({"tags": None}, "tags"),
        ({"tags": "wide"}, "tags"),
        ({"note": "x" * 4001}, "note"),
        ({"notes": "x"}, "notes"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_its_field(
    api: TestClient, ordered: dict[str, str], said: dict[str, Any], field: str
) -> None:
    answer = patch(api, ordered["ordered b"], **said)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field
    job = api.get(f"/api/v1/jobs/{ordered['ordered b']}").json()
    assert (job["tags"], job["note"]) == ([], None)


def test_two_spellings_of_a_letter_are_one_tag(api: TestClient) -> None:
    job = submit(api, "spelled")
    assert patch(api, job["id"], tags=["cafe\u0301", "caf\u00e9"]).json()["tags"] == ["caf\u00e9"]
    for spelled in ("cafe\u0301", "caf\u00e9"):
        found = api.get("/api/v1/jobs", params={"tag": spelled}).json()["items"]
        assert [row["name"] for row in found] == ["spelled"]


def test_a_sorted_lists_cursor_is_none_of_the_plain_list(api: TestClient, ordered: dict[str, str]) -> None:
    page = api.get("/api/v1/jobs", params={"sort": "name", "limit": 1}).json()
    answer = api.get("/api/v1/jobs", params={"cursor": page["next_cursor"]})
    assert answer.status_code == 422, "not the first page once more"
    assert answer.json()["errors"][0]["field"] == "cursor"


def test_nobody_is_no_job(api: TestClient) -> None:
    assert patch(api, "nobody", note="x").status_code == 404


# --- groups ---


def groups(api: TestClient, by: str, **query: Any) -> dict[str, tuple[int, int]]:
    answer = api.get("/api/v1/job-groups", params={"by": by, **query})
    assert answer.status_code == 200, answer.text
    return {group["name"]: (group["jobs"], group["active"]) for group in answer.json()["items"]}


def test_jobs_fall_into_groups(api: TestClient, ordered: dict[str, str]) -> None:
    assert groups(api, "model", text="ordered") == {"mlp": (5, 2)}
    assert groups(api, "strategy", text="ordered", state="succeeded") == {"p3": (3, 0)}
    assert groups(api, "tag", text="ordered") == {"No tag": (5, 2)}
    patch(api, ordered["ordered c"], tags=["x", "y"])
    patch(api, ordered["ordered d"], tags=["x"])
    assert groups(api, "tag", text="ordered") == {"No tag": (3, 1), "x": (2, 1), "y": (1, 0)}
    for name in ("ordered c", "ordered d"):
        patch(api, ordered[name], tags=[])


def test_jobs_of_a_race_are_a_group(api: TestClient) -> None:
    spec = {"job": job_spec("grouped"), "members": [{"strategy": "p3"}], "rounds": 1}
    race = api.post("/api/v1/races", json=spec).json()
    context = api.app.state.context  # type: ignore[attr-defined]
    Racing(context.database, context.jobs).step()
    submit(api, "grouped alone")
    assert groups(api, "race", text="grouped") == {"No race": (1, 1), "grouped": (1, 1)}
    found = api.get("/api/v1/jobs", params={"race": race["id"]}).json()["items"]
    assert [row["name"] for row in found] == ["grouped: p3, round 1"]
    alone = api.get("/api/v1/jobs", params={"raced": False, "text": "grouped"}).json()["items"]
    assert [row["name"] for row in alone] == ["grouped alone"]


def test_a_deleted_job_leaves_no_tag_and_no_figures(api: TestClient, tmp_path: Path) -> None:
    job = submit(api, "gone soon")
    patch(api, job["id"], tags=["gone"])
    posted = start_attempt(api, job["id"], tmp_path)
    record_steps(posted)
    posted.post_all(api)
    end_attempt(api, posted)
    context = api.app.state.context  # type: ignore[attr-defined]
    context.job_figures.look()
    answer = api.delete(f"/api/v1/jobs/{job['id']}", headers={"Content-Type": "application/json"})
    assert answer.status_code == 204
    context.job_figures.look()
    assert groups(api, "tag", tag="gone") == {}
