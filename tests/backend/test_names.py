"""Names of jobs, races and members, over HTTP: one line of visible characters, and nobody's is another one's."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db import models
from backend.services.racing import Racing
from tests.backend.job_specs import job_spec, submit
from tests.backend.raced_jobs import next_job, race_spec, show
from tests.backend.raced_jobs import submit as submit_race

BAD = ("two\nlines", "ab\u202ecd", "zero\u200bwidth", "bell\x07")


def refused(api: TestClient, path: str, body: dict[str, Any]) -> list[str]:
    answer = api.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert "Leave line feeds and invisible characters out" in answer.text or "another name" in answer.text
    return [error["field"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("name", BAD)
def test_a_name_is_one_line_of_visible_characters(api: TestClient, name: str) -> None:
    assert refused(api, "jobs", job_spec(name)) == ["name"]
    assert refused(api, "plans", job_spec(name)) == ["name"], "as a submission would be"
    assert refused(api, "races", race_spec("p3", name=name)) == ["name"]
    assert refused(api, "races", {**race_spec("p3"), "job": job_spec(name)}) == ["job.name"]
    named = [{"strategy": "p3"}, {"strategy": "ddp", "name": name}]
    assert refused(api, "races", {**race_spec(), "members": named}) == ["members.1.name"]
    told_apart = [{"strategy": "p3"}, {"strategy": "p3", "options": {"where": name}}]
    assert refused(api, "races", {**race_spec(), "members": told_apart}) == ["members.1.options"]


def test_names_of_every_script_are_taken(api: TestClient) -> None:
    for name in ("größer, 2. Versuch", "比較", "مقارنة", "e\u0301"):
        submit(api, name)


def test_members_that_differ_in_spaces_only_are_refused(api: TestClient) -> None:
    named = [{"strategy": "p3", "name": "my p3"}, {"strategy": "ddp", "name": "my  p3 "}]
    assert refused(api, "races", {**race_spec(), "members": named}) == ["members.1"]
    race = submit_race(api, "p3", "ddp")
    joins = {"members": [{"strategy": "single"}, {"strategy": "tree-allreduce", "name": " p3"}]}
    assert refused(api, f"races/{race['id']}/members", joins) == ["members.1"]
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_what_an_older_server_stored_is_read_and_goes_on(api: TestClient, racing: Racing) -> None:
    race = submit_race(api, "p3", "single")

    def write(session: Session) -> None:
        row = session.get_one(models.Race, race["id"])
        members = [
            {**row.spec["members"][0], "name": "one\nline"},
            {**row.spec["members"][1], "name": "one\nline "},
        ]
        row.name, row.spec = BAD[0], {**row.spec, "name": BAD[0], "members": members}

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]
    assert show(api, race)["name"] == BAD[0]
    job = api.get(f"/api/v1/jobs/{next_job(api, racing, race)}").json()
    assert job["name"] == f"{BAD[0]}: one\nline, round 1"
    more = {"members": [{"strategy": "tree-allreduce"}]}
    assert api.post(f"/api/v1/races/{race['id']}/members", json=more).status_code == 200
    again = api.post(f"/api/v1/jobs/{job['id']}/clone", json={})
    assert [error["field"] for error in again.json()["errors"]] == ["name"]
    assert api.post(f"/api/v1/jobs/{job['id']}/clone", json={"name": "again"}).status_code == 201
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_a_clone_under_another_strategy_says_so_in_its_name(api: TestClient) -> None:
    """The old one's is in the names of races' jobs."""
    job = submit(api, "digits: ring-allreduce, round 3", strategy={"name": "ring-allreduce"})
    asked: list[dict[str, Any]] = [
        {},
        {"strategy": {"name": "p3"}},
        {"strategy": {"name": "p3"}, "name": "mine"},
    ]
    found = [api.post(f"/api/v1/jobs/{job['id']}/clone", json=changes).json()["name"] for changes in asked]
    assert found == [f"{job['name']} (again)", f"{job['name']} (again, under p3)", "mine"]
