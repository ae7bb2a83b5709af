"""Devices and their queue: who holds what since when, and what waits for what, in the scheduler's own words."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from backend.db.models import Job
from backend.lifecycle import Reason
from backend.scheduler import record
from tests.backend.job_specs import submit
from tests.backend.posted_run import end_attempt, start_attempt


def test_devices_say_who_holds_them_and_the_queue_who_waits_and_why(api: TestClient, tmp_path: Path) -> None:
    runs = submit(api, "holds", cluster={"workers": 2}, duration_s=3600)["id"]
    posted = start_attempt(api, runs, tmp_path, devices={"cpu:0": "a processor", "cpu:1": "a processor"})
    older = submit(api, "older", cluster={"workers": 3}, duration_s=60)
    urgent = submit(api, "urgent", priority=5)
    rehearsal = submit(api, "rehearsal", fidelity="rehearse")
    held = {device["name"]: device for device in api.get("/api/v1/devices").json()}
    assert (held["cpu:0"]["job_name"], held["cpu:0"]["job_state"], held["cpu:0"]["workers"]) == (
        "holds",
        "running",
        1,
    )
    assert held["cpu:0"]["since"] is not None
    assert (held["cpu:2"]["job_id"], held["cpu:2"]["since"], held["cpu:2"]["workers"]) == (None, None, 0)
    queue = api.get("/api/v1/queue").json()
    assert [row["job_id"] for row in queue["items"]] == [urgent["id"], older["id"], rehearsal["id"]]
    assert queue["total"] == 3
    assert [(row["kind"], row["devices"]) for row in queue["items"]] == [
        ("cpu", 2),
        ("cpu", 3),
        ("rehearsal", 1),
    ]
    # The first and the third one fit now. Nobody knows when the first one ends, for which the second one waits.
    assert [row["starts_at"] is None for row in queue["items"]] == [False, True, False]
    assert queue["items"][0]["message"] is None, "nobody has looked at it: no scheduler runs here"
    words = "next in the queue: needs 3 CPU devices"
    database = api.app.state.context.database  # type: ignore[attr-defined]
    database.writer.run(
        lambda session: record.wait(
            session, session.get_one(Job, older["id"]), Reason.WAITING_FOR_DEVICES, words
        )
    )
    shown = api.get("/api/v1/queue", params={"limit": 2}).json()
    assert (shown["items"][1]["message"], shown["items"][1]["reason"]) == (words, "waiting-for-devices")
    assert (len(shown["items"]), shown["total"]) == (2, 3)
    end_attempt(api, posted)
    assert api.get("/api/v1/devices").json()[0]["job_id"] is None
