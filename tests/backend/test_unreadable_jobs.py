"""A job that another version stored, and this one cannot read, is in nobody's way, and says what is wrong with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db import Database, models, uuid7
from backend.db.models import Attempt, Job
from backend.executors.base import Ended
from backend.lifecycle import Reason
from backend.scheduler import changes, record
from backend.services.notices import Event, Hub
from backend.services.views import Views
from engine.plan.retry import RetrySpec
from engine.plan.serde import to_plain
from tests.backend.executor_attempts import job as job_of_programs
from tests.backend.executor_attempts import until
from tests.backend.house import House
from tests.backend.job_specs import JSON, submit
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt

OTHERS: dict[str, dict[str, Any]] = {
    "an unknown field": {"colour": "red"},
    "a rule that was tightened": {"cluster": {"workers": -2}},
    "a part that is missing": {"training": None},
    "a part of another kind": {"strategy": "p3"},
}
"""What other versions may have stored in place of a part; None: they had no such part."""


def stored_by_another(database: Database, job_id: str, changed: dict[str, Any]) -> None:
    def write(session: Session) -> None:
        row = session.get_one(Job, job_id)
        row.spec = {name: part for name, part in {**row.spec, **changed}.items() if part is not None}
        record.tell(session, row)

    database.writer.run(write)


def ran(api: TestClient, directory: Path, **fields: Any) -> Posted:
    """A job that ended, with telemetry."""
    run = start_attempt(api, submit(api, **fields)["id"], directory)
    record_steps(run)
    run.post_all(api)
    end_attempt(api, run)
    return run


def test_a_specification_that_is_no_object_at_all_is_no_bug_of_its_figures(
    api: TestClient, tmp_path: Path
) -> None:
    run = ran(api, tmp_path, name="no object")

    def write(session: Session) -> None:
        session.get_one(Job, run.job_id).spec = [1, 2]  # type: ignore[assignment]

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]
    refused = api.patch(f"/api/v1/jobs/{run.job_id}", json={"tags": ["kept"], "note": "kept"})
    assert (refused.status_code, "cannot read" in refused.text) == (422, True)
    rows = api.get("/api/v1/jobs").json()["items"]
    assert [(row["tags"], row["note"]) for row in rows if row["id"] == run.job_id] == [([], None)]
    for path in (
        "links",
        "links/stretch?from_ns=0&to_ns=1",
        "staleness",
        "trace",
        "figures/timeline",
        "logs",
    ):
        answer = api.get(f"/api/v1/jobs/{run.job_id}/{path}")
        assert answer.status_code == 200, answer.text
    assert api.delete(f"/api/v1/jobs/{run.job_id}", headers=JSON).status_code == 204


@pytest.mark.parametrize("changed", OTHERS.values(), ids=OTHERS)
def test_it_is_listed_beside_the_others_and_can_be_deleted(
    api: TestClient, tmp_path: Path, changed: dict[str, Any]
) -> None:
    other = ran(api, tmp_path / "other", name="other")
    good = ran(api, tmp_path / "good", baseline=other.job_id)
    rival = ran(api, tmp_path / "rival", baseline=good.job_id)
    stored_by_another(api.app.state.context.database, other.job_id, changed)  # type: ignore[attr-defined]
    page = api.get("/api/v1/jobs", params={"limit": 3})
    assert page.status_code == 200, page.text
    rows = {row["id"]: row for row in page.json()["items"]}
    row = rows[other.job_id]
    assert (row["name"], row["state"], row["model"]) == ("other", "succeeded", "mlp")
    (part,) = changed
    assert row["message"].startswith(f"done; spec.{part}")
    assert "this version cannot read the job that another one stored" in row["message"]
    assert rows[good.job_id]["speed_up"] is None
    assert rows[rival.job_id]["speed_up"] == 1

    race = api.get("/api/v1/race", params={"jobs": f"{good.job_id},{rival.job_id}"})
    assert [row["id"] for row in race.json()["jobs"]] == [good.job_id, rival.job_id]
    compared = api.get(f"/api/v1/jobs/{good.job_id}/summary").json()["speed_up"]
    assert (compared["value"], compared["comparable"]) == (None, False)
    assert f"the baseline: spec.{part}" in compared["why_not"]

    shown = api.get(f"/api/v1/jobs/{other.job_id}")
    assert shown.status_code == 422
    (error,) = shown.json()["errors"]
    assert error["field"].startswith(f"spec.{part}")
    assert error["remedy"].endswith("Read it with the version that stored it, or delete it")
    assert api.delete(f"/api/v1/jobs/{other.job_id}", headers=JSON).status_code == 204
    assert other.job_id not in {row["id"] for row in api.get("/api/v1/jobs").json()["items"]}


def test_it_races_where_what_figures_need_is_there(api: TestClient, tmp_path: Path) -> None:
    ids = [ran(api, tmp_path / str(number)).job_id for number in range(2)]
    stored_by_another(api.app.state.context.database, ids[0], {"colour": "red"})  # type: ignore[attr-defined]
    race = api.get("/api/v1/race", params={"jobs": ",".join(ids)})
    assert race.status_code == 200, race.text
    assert "spec.colour" in race.json()["jobs"][0]["message"]
    assert race.json()["figure"]["data"]


def new_job(database: Database, name: str) -> str:
    row = Job(id=uuid7(), name=name, spec=to_plain(job_of_programs(name)), created_unix_ns=1)
    database.writer.run(lambda session: record.submitted(session, row))
    return row.id


async def heard(hub: Hub, wanted: int, act: Any) -> list[Event]:
    """What a page hears while `act` runs: the first `wanted` events after its connection."""
    feed = hub.subscribe(None)
    assert (await anext(feed)).kind == "ready"
    await asyncio.to_thread(act)
    return [await asyncio.wait_for(anext(feed), 20) for _ in range(wanted)]


@pytest.mark.parametrize("changed", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("path", ["metrics", "metrics/names", "events", "trace"])
def test_what_was_recorded_of_it_can_be_read(
    api: TestClient, tmp_path: Path, path: str, changed: dict[str, Any]
) -> None:
    other = ran(api, tmp_path, name="recorded by another")
    before = api.get(f"/api/v1/jobs/{other.job_id}/{path}").json()
    stored_by_another(api.app.state.context.database, other.job_id, changed)  # type: ignore[attr-defined]
    answer = api.get(f"/api/v1/jobs/{other.job_id}/{path}")
    assert answer.status_code == 200, answer.text
    assert answer.json() | {"revision": 0} == before | {"revision": 0}


def test_pages_hear_of_it_and_of_the_others(database: Database) -> None:
    other, good = new_job(database, "other"), new_job(database, "good")

    def change() -> None:
        stored_by_another(database, other, {"colour": "red"})
        stored_by_another(database, good, {})

    async def listen() -> list[Event]:
        hub = Hub(database, Views(), kept=1_000)
        await hub.start()
        try:
            return await heard(hub, 2, change)
        finally:
            await hub.stop()

    told = asyncio.run(listen())
    assert {(event.data["job_id"], event.data["state"]) for event in told} == {
        (other, "queued"),
        (good, "queued"),
    }


def test_a_job_of_which_nothing_can_be_said_silences_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, good = new_job(database, "other"), new_job(database, "good")
    views, summary = Views(), Views.summary

    def failing(self: Views, session: Session, row: models.Job) -> Any:
        if row.id == other:
            raise KeyError("layers")
        return summary(self, session, row)

    monkeypatch.setattr(Views, "summary", failing)

    async def listen() -> tuple[list[Event], list[int]]:
        hub = Hub(database, views, kept=1_000)
        await hub.start()
        try:
            told = await heard(hub, 1, lambda: [stored_by_another(database, i, {}) for i in (good, other)])
            passed = []
            for _ in range(200):
                with database.read() as session:
                    passed = [event.id for event in hub._events(session, hub._last)]
                    newest = hub._newest()
                if hub._last >= newest:
                    break
                await asyncio.sleep(0.05)
            return told, [newest - hub._last, *passed]
        finally:
            await hub.stop()

    told, left = asyncio.run(listen())
    assert [event.data["job_id"] for event in told] == [good]
    assert left == [0]  # what could not be said is not looked at again


@pytest.mark.parametrize("cluster", [{"workers": -2}, "two", {"workers": 1, "colour": "red"}])
def test_in_the_queue_it_is_refused_and_the_others_run(house: House, cluster: Any) -> None:
    other, good = house.submit("work"), house.submit("work")
    stored_by_another(house.database, other, {"cluster": cluster})
    house.scheduler.start()
    failed = house.ends(other)
    assert (failed.state, failed.reason) == ("failed", Reason.LAUNCH_FAILED)
    assert str(failed.message).startswith("cluster")
    assert house.ends(good).state == "succeeded"
    assert house.ends(house.submit("work")).state == "succeeded"


def test_a_paused_server_does_not_refuse_it(house: House) -> None:
    """The version that stored it may be the one that comes back."""
    other, good = house.submit("work"), house.submit("work")
    stored_by_another(house.database, other, {"cluster": "two"})
    house.restart(paused=True)
    until(lambda: house.job(good).reason == Reason.SERVER_PAUSED, "the queue is looked at")
    assert house.job(other).state == "queued"


def test_its_attempt_ends_and_gives_its_devices_back(house: House) -> None:
    """Nobody can say whether it would be tried again: it is not."""
    id_ = house.submit("fails", retry=RetrySpec(times=2, backoff_s=0))
    stored_by_another(house.database, id_, {"retry": {"times": "twice"}})

    def fail(session: Session) -> None:
        row = session.get_one(Job, id_)
        attempt = Attempt(
            job=row, number=1, parties=[], token_sha256="", directory="", devices=["cpu:0"], created_unix_ns=1
        )
        record.place(session, row, attempt)
        end = Ended(status="failed", reason=Reason.PROCESS_FAILED, message="it broke", ended_unix_ns=2)
        changes.close(session, attempt.id, end)

    house.database.writer.run(fail)
    failed, (attempt,) = house.job(id_), house.attempts(id_)
    assert (failed.state, failed.reason, attempt.state) == ("failed", Reason.PROCESS_FAILED, "failed")
    house.scheduler.start()
    assert house.ends(house.submit("work")).state == "succeeded"
