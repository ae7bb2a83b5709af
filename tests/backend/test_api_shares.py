"""How devices are shared, and which are out of use: maintenance and projects through the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastapi.testclient import TestClient

from tests.backend.job_specs import JSON, job_spec, submit
from tests.backend.posted_run import start_attempt


def test_devices_are_out_of_use_until_they_are_given_back(api: TestClient, tmp_path: Path) -> None:
    runs = submit(api, "holds", cluster={"workers": 1})["id"]
    start_attempt(api, runs, tmp_path, devices={"cpu:0": "a processor"})
    unknown = api.post("/api/v1/maintenance", json={"devices": ["cpu:0", "cpu:99"]})
    assert unknown.status_code == 422
    assert "devices.1" in unknown.text
    assert "this server has no such device. It has" in unknown.text
    asked = {"devices": ["cpu:0"], "makes_room": True, "note": "a new driver"}
    made = api.post("/api/v1/maintenance", json=asked)
    assert made.status_code == 201, made.text
    assert "keeps that out of use already" in api.post("/api/v1/maintenance", json=asked).text
    assert (
        "more than 366 days ahead" in api.post("/api/v1/maintenance", json={"begins_at": "2999-01-01"}).text
    )
    soon = (datetime.now(UTC) + timedelta(days=9)).replace(tzinfo=None, microsecond=0)
    later = api.post("/api/v1/maintenance", json={"begins_at": soon.isoformat()}).json()
    assert (later["devices"], later["begins_at"]) == (None, f"{soon.isoformat()}Z")
    first, second = api.get("/api/v1/maintenance").json()
    assert first == made.json()
    assert first["holders"] == [{"job_id": runs, "job_name": "holds"}]
    assert second["id"] == later["id"]
    drained = {one["name"]: one["drained_at"] for one in api.get("/api/v1/devices").json()}
    assert drained["cpu:0"] == first["begins_at"]
    assert drained["cpu:1"] == later["begins_at"]
    for id_ in (first["id"], later["id"]):
        assert api.delete(f"/api/v1/maintenance/{id_}", headers=JSON).status_code == 204
    assert api.delete(f"/api/v1/maintenance/{first['id']}", headers=JSON).status_code == 404
    assert {one["drained_at"] for one in api.get("/api/v1/devices").json()} == {None}


def test_projects_have_quotas_and_take_turns(api: TestClient, tmp_path: Path) -> None:
    refused = api.post("/api/v1/jobs", json=job_spec(project="vision"))
    assert refused.status_code == 422
    assert "no such project" in refused.text
    for name in ("vision", "speech"):
        assert api.put(f"/api/v1/projects/{name}", json={"cpu": 2}).status_code == 200
    too_many = api.post("/api/v1/jobs", json=job_spec(project="vision", cluster={"workers": 3}))
    assert "its project 'vision' may hold at most 2 devices of the kind cpu" in too_many.text
    runs = submit(api, "runs", project="vision")["id"]
    start_attempt(api, runs, tmp_path, devices={"cpu:0": "a processor", "cpu:1": "a processor"})
    older, younger = (submit(api, name, project=name)["id"] for name in ("vision", "speech"))
    # The one whose project has used less goes first, although it is younger.
    assert [one["job_id"] for one in api.get("/api/v1/queue").json()["items"]] == [younger, older]
    speech, vision = api.get("/api/v1/projects").json()
    assert (vision["name"], vision["held"], vision["waiting"], vision["cpu"]) == ("vision", {"cpu": 2}, 1, 2)
    assert vision["used_s"]["cpu"] > 0
    assert (speech["held"], speech["used_s"]) == ({}, {})
    assert "2 of its jobs wait or run" in api.delete("/api/v1/projects/vision", headers=JSON).text
    api.post(f"/api/v1/jobs/{younger}/cancel", json={})
    assert api.delete("/api/v1/projects/speech", headers=JSON).status_code == 204
    assert api.delete("/api/v1/projects/speech", headers=JSON).status_code == 404
    assert api.put("/api/v1/projects/a b", json={}).status_code == 422
