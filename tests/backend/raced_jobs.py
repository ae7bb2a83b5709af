"""Races in tests: submitted, and run by jobs that post what they would have measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from backend.races.spec import FEWEST_ROUNDS
from backend.services.racing import Racing
from tests.backend.job_specs import job_spec
from tests.backend.posted_run import end_attempt, record_steps, start_attempt

SLOWER = {"p3": 1, "parameter-server": 3, "single": 2, "ring-allreduce": 2}


def race_spec(*members: str, **fields: Any) -> dict[str, Any]:
    """Three rounds, the fewest that prove something, unless it says otherwise."""
    named = [{"strategy": name} for name in members]
    return {"job": job_spec("digits"), "members": named, "rounds": FEWEST_ROUNDS, **fields}


def submit(api: TestClient, *members: str, **fields: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/races", json=race_spec(*members, **fields))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def show(api: TestClient, race: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/races/{race['id']}").json()
    return found


def next_job(api: TestClient, racing: Racing, race: dict[str, Any]) -> str | None:
    """Let everything happen that follows from what is stored; the job that waits then."""
    while racing.step():
        pass
    found: str | None = show(api, race)["running_job"]
    return found


def run(api: TestClient, racing: Racing, race: dict[str, Any], directory: Path) -> list[str]:
    """All jobs of a race to their ends; their names in order."""
    names = []
    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        names.append(job["name"])
        posted = start_attempt(api, job_id, directory / job_id)
        record_steps(posted, slower=SLOWER[job["strategy"]])
        posted.post_all(api)
        end_attempt(api, posted)
    return names
