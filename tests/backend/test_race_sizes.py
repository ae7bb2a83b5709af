"""Sizes that are left to us stay the same while a race lasts, whatever a server measures meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.services.racing import Racing
from engine import message_cost
from engine.plan.plan import MessageCost
from tests.backend.job_specs import job_spec
from tests.backend.posted_run import end_attempt, record_steps, start_attempt
from tests.backend.raced_jobs import next_job, race_spec

COST, DEARER = MessageCost(seconds=200e-6), MessageCost(seconds=800e-6)
UNKNOWN = MessageCost(why="no sockets here")


def sizes(api: TestClient, job: dict[str, Any]) -> set[int]:
    layers = api.get(f"/api/v1/jobs/{job['id']}/plan").json()["layers"]
    return {entry["plan"]["order"]["size"] for entry in layers}


@pytest.mark.parametrize(
    ("first", "later", "size"),
    [(COST, DEARER, 100_000), (DEARER, COST, 200_000), (UNKNOWN, COST, 50_000), (COST, UNKNOWN, 100_000)],
    ids=["dearer", "cheaper", "measured later", "not measured later"],
)
def test_a_restart_in_between_changes_no_slices(
    api: TestClient,
    racing: Racing,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: MessageCost,
    later: MessageCost,
    size: int,
) -> None:
    """Neither of a member's next round nor of another member."""
    monkeypatch.setattr(message_cost, "here", lambda: first)
    large = job_spec("large", model={"name": "mlp", "options": {"hidden": 2048}}, network={"rate": "1Gbit"})
    spec = race_spec("p3", "parameter-slicing", rounds=2) | {"job": large}
    race = api.post("/api/v1/races", json=spec).json()
    found = []
    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        found.append((job["strategy"], sizes(api, job)))
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted)
        posted.post_all(api)
        end_attempt(api, posted)
        monkeypatch.setattr(message_cost, "here", lambda: later)  # as another server would measure it
    p3, slicing = ("p3", {size}), ("parameter-slicing", {size})
    assert found == [p3, slicing, slicing, p3]
    monkeypatch.setattr(message_cost, "here", lambda: later)
    alone = api.post("/api/v1/jobs", json=large).json()
    assert sizes(api, alone) != {size}, "a job by itself goes by what is measured now"
