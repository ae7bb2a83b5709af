"""A race that another version stored, and this one cannot read, is in nobody's way, and says what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db import models
from backend.services.racing import Racing
from tests.backend.raced_jobs import next_job, show, submit

OTHERS: dict[str, Any] = {
    "a strategy that is gone": {"members": [{"strategy": "gone"}]},
    "an unknown field": {"colour": "red"},
    "a part that is missing": {"job": None},
    "a part of another kind": {"members": 5},
}


def stored_by_another(api: TestClient, race_id: str, changed: dict[str, Any] | None) -> None:
    def write(session: Session) -> None:
        row = session.get_one(models.Race, race_id)
        row.spec = (
            [] if changed is None else {k: v for k, v in {**row.spec, **changed}.items() if v is not None}
        )

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]


@pytest.mark.parametrize("changed", [*OTHERS.values(), None], ids=[*OTHERS, "no object at all"])
def test_it_is_listed_beside_the_others_which_go_on(
    api: TestClient, racing: Racing, changed: dict[str, Any] | None
) -> None:
    other = submit(api, "p3", name="other")
    good = submit(api, "parameter-server", name="good")
    stored_by_another(api, other["id"], changed)
    answer = api.get("/api/v1/races")
    assert answer.status_code == 200, answer.text
    rows = {row["id"]: row for row in answer.json()["items"]}
    assert (rows[other["id"]]["name"], rows[other["id"]]["state"]) == ("other", "running")
    assert rows[good["id"]]["members"] == ["parameter-server"]
    said = api.get(f"/api/v1/races/{other['id']}")
    assert said.status_code == 422
    (error,) = said.json()["errors"]
    assert error["field"].startswith("spec")
    assert "this version cannot read the race that another one stored" in error["rule"]
    job = next_job(api, racing, good)
    assert job is not None, "the older race, which cannot be read, does not keep this one from running"
    api.post(f"/api/v1/races/{good['id']}/cancel", json={})
    ended = api.post(f"/api/v1/races/{other['id']}/cancel", json={})
    listed = {row["id"]: row for row in api.get("/api/v1/races").json()["items"]}[other["id"]]
    assert (ended.status_code, ended.json()) == (200, listed)
    assert listed["state"] == "cancelled"
    assert show(api, good)["state"] == "cancelled"
    assert (
        api.delete(f"/api/v1/races/{other['id']}", headers={"Content-Type": "application/json"}).status_code
        == 204
    )


def test_a_race_whose_job_cannot_be_read_is_cancelled_with_it(api: TestClient, racing: Racing) -> None:
    race = submit(api, "p3")
    job_id = next_job(api, racing, race)

    def write(session: Session) -> None:
        row = session.get_one(models.Job, job_id)
        row.spec = {**row.spec, "colour": "red"}

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]
    answer = api.post(f"/api/v1/races/{race['id']}/cancel", json={})
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled"), answer.text
    items = api.get("/api/v1/jobs").json()["items"]
    assert [job["state"] for job in items if job["id"] == job_id] == ["cancelled"]
