"""Races over HTTP: submitted, run one job after another, ranked, added to, cancelled, deleted."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, select
from sqlalchemy import event as events
from sqlalchemy.orm import Session

from backend.db.models import Job
from backend.lifecycle import Event, Reason
from backend.scheduler import changes, record
from backend.scheduler.decide import Wait
from backend.services.racing import Racing
from engine.benchmarks.harness.machine import commit
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt

SLOWER = {"p3": 1, "parameter-server": 3, "single": 2}


def race_spec(*members: str, **fields: Any) -> dict[str, Any]:
    return {"job": job_spec("digits"), "members": [{"strategy": name} for name in members], **fields}


def submit(api: TestClient, *members: str, **fields: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/races", json=race_spec(*members, **fields))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def show(api: TestClient, race: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/races/{race['id']}").json()
    return found


@pytest.fixture
def racing(api: TestClient) -> Racing:
    """What submits the jobs of races; the tests say when it looks."""
    context = api.app.state.context  # type: ignore[attr-defined]
    return Racing(context.database, context.jobs)


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


def test_a_race_runs_its_rounds_and_says_who_is_fastest(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "parameter-server", "p3", rates=["100Mbit", "1Gbit"])
    assert (race["state"], race["jobs"], race["jobs_ended"], race["left_s"]) == ("running", 12, 0, None)
    assert not race["decided"]
    names = run(api, racing, race, tmp_path)
    assert names[:5] == [
        "digits: parameter-server, 100Mbit, round 1",
        "digits: p3, 100Mbit, round 1",
        "digits: parameter-server, 1Gbit, round 1",
        "digits: p3, 1Gbit, round 1",
        "digits: p3, 100Mbit, round 2",
    ]
    assert len(names) == len(set(names)) == 12
    race = show(api, race)
    assert (race["state"], race["jobs_ended"], race["running_job"]) == ("finished", 12, None)
    assert race["decided"]
    for ranking, rate in zip(race["rankings"], ("100Mbit", "1Gbit"), strict=True):
        assert ranking["condition"] == ranking["rate"] == rate
        first, second = ranking["standings"]
        assert (first["name"], first["rank"], first["rounds"]) == ("p3", 1, 3)
        assert (second["name"], second["rank"], second["significant"]) == ("parameter-server", 2, True)
        assert second["times_fastest"] == pytest.approx(3)
        assert first["iteration_ms"] == pytest.approx(50)
        assert len(first["job_ids"]) == len(second["job_ids"]) == 3
        assert ranking["sentence"].startswith("p3 finishes a step 3.00x sooner than parameter-server")
        assert (first["samples_low"], first["samples_high"]) == pytest.approx((first["samples_per_s"],) * 2)
        assert (first["processors"], first["port_busy"]) == (None, None), "nobody recorded them"
        assert first["limit"]["sentence"].endswith("processors not known")
    assert race["crossings"] == []
    url = f"/api/v1/races/{race['id']}/figures"
    drawn = api.get(f"{url}/throughput", params={"theme": "dark"})
    assert drawn.status_code == 200, drawn.text
    lines = [trace["name"] for trace in drawn.json()["data"]]
    assert lines == ["parameter-server", "p3"]
    again = api.get(
        f"{url}/throughput", params={"theme": "dark"}, headers={"If-None-Match": drawn.headers["etag"]}
    )
    assert again.status_code == 304
    unknown = api.get(f"{url}/troughput")
    assert (unknown.status_code, "throughput" in unknown.text) == (404, True)
    assert api.get("/api/v1/races/nobody/figures/throughput").status_code == 404
    jobs = api.get("/api/v1/jobs", params={"text": "digits: p3"}).json()["items"]
    spec = api.get(f"/api/v1/jobs/{jobs[0]['id']}").json()["spec"]
    assert spec["cluster"]["alone"], "nothing runs beside a race's job"


def test_who_cannot_run_is_listed_with_the_reason_and_the_others_run(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "ddp", "p3", rates=["100Mbit"], rounds=1)
    ddp = next(s for s in race["rankings"][0]["standings"] if s["name"] == "ddp")
    assert "network.rate" in ddp["out"]
    assert "hosts" in ddp["out"], "the remedy"
    assert race["jobs"] == 1
    assert run(api, racing, race, tmp_path) == ["digits: p3, 100Mbit, round 1"]
    ranking = show(api, race)["rankings"][0]
    assert [s["name"] for s in ranking["standings"]] == ["p3", "ddp"]
    assert ranking["sentence"].startswith("Only p3 has figures: 50 ms")


def test_where_nobody_can_run_nothing_is_stored(api: TestClient) -> None:
    before = api.get("/api/v1/races").json()["items"]
    answer = api.post("/api/v1/races", json=race_spec("ddp", rates=["100Mbit"]))
    assert answer.status_code == 422
    assert "job.network.rate" in answer.text
    answer = api.post("/api/v1/races", json=race_spec("p4"))
    assert answer.status_code == 422
    assert "Did you mean" in answer.text or "Known" in answer.text
    assert api.get("/api/v1/races").json()["items"] == before


def test_too_few_rounds_are_said_to_be_too_few(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "parameter-server", "p3", rounds=2)
    run(api, racing, race, tmp_path)
    assert not show(api, race)["decided"]
    (ranking,) = show(api, race)["rankings"]
    answer = api.get(f"/api/v1/races/{race['id']}/figures/throughput")
    assert (answer.status_code, "one condition" in answer.text) == (409, True)
    assert [s["rank"] for s in ranking["standings"]] == [None, None]
    assert ranking["sentence"] == (
        "Nobody can tell who is fastest: 2 rounds are too few, 3 are the fewest that prove something"
    )


def test_one_more_member_runs_all_rounds_and_the_others_none(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server")
    assert len(run(api, racing, race, tmp_path)) == 6
    answer = api.post(f"/api/v1/races/{race['id']}/members", json={"members": [{"strategy": "single"}]})
    assert answer.status_code == 422, "one process has no two workers"
    more = {"members": [{"strategy": "p3", "options": {"slice_size": 500}, "name": "small slices"}]}
    answer = api.post(f"/api/v1/races/{race['id']}/members", json=more)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["state"], answer.json()["jobs"]) == ("running", 9)
    assert next_job(api, racing, race) is not None
    assert show(api, race)["round"] == 1, "its own, not that of those that have ended"
    assert [name.split(", ")[0] for name in run(api, racing, race, tmp_path)] == ["digits: small slices"] * 3
    (ranking,) = show(api, race)["rankings"]
    *others, late = ranking["standings"]
    assert [(s["name"], s["rank"]) for s in others] == [("p3", 1), ("parameter-server", 2)]
    assert (late["name"], late["rank"], late["times_fastest"], late["rounds"]) == (
        "small slices",
        None,
        None,
        3,
    )
    assert late["joined_s"] > 0
    assert late["remark"].endswith(
        "ran by itself: times between it and the others are not compared within rounds"
    )
    assert f"small slices {late['remark']}" in ranking["sentence"]
    report = api.get(f"/api/v1/races/{race['id']}/report").text
    assert "every member but small slices ran once" in report
    assert "small slices joined later" in report


def test_a_member_whose_model_was_edited_in_between_is_not_compared(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server")
    while (job_id := waiting(api, racing)) is not None:  # before anybody looks at the race
        if api.get(f"/api/v1/jobs/{job_id}").json()["strategy"] == "parameter-server":
            change(api, job_id, _larger)
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted)
        posted.post_all(api)
        end_attempt(api, posted)
    (ranking,) = show(api, race)["rankings"]
    assert "sooner" not in ranking["sentence"]
    said = r"parameter-server does not compare: the model is another one \([\d,]+ parameters and [\d,]+\)"
    assert re.search(said, ranking["sentence"])
    assert [s["times_fastest"] for s in ranking["standings"]] == [1, None]


def waiting(api: TestClient, racing: Racing) -> str | None:
    """The job that waits when everything has happened that follows from what is stored."""
    while racing.step():
        pass
    with api.app.state.context.database.read() as session:  # type: ignore[attr-defined]
        found: str | None = session.scalars(select(Job.id).where(Job.state == "queued")).first()
        return found


def change(api: TestClient, job_id: str, to: Callable[[Job], None]) -> None:
    """What is stored of a job."""

    def write(session: Session) -> None:
        to(session.get_one(Job, job_id))

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]


def _larger(job: Job) -> None:
    """Another model than it was, behind the same name."""
    layers = copy.deepcopy((job.description or {})["layers"])
    layers[0]["parameters"][0]["shape"][0] *= 10
    job.description = {**(job.description or {}), "layers": layers}


def test_a_verdict_that_lost_a_job_says_so(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "p3", "parameter-server")
    run(api, racing, race, tmp_path)
    before = show(api, race)
    assert before["notes"] == []
    last = before["rankings"][0]["standings"][1]["job_ids"][2]
    assert api.delete(f"/api/v1/jobs/{last}", headers={"Content-Type": "application/json"}).status_code < 300
    after = show(api, race)
    note = "The figures of 1 job were deleted: what is said here rests on the others"
    assert after["notes"] == [note]
    assert "parameter-server has lost the figures of 1 job" in after["rankings"][0]["sentence"]
    assert note in api.get(f"/api/v1/races/{race['id']}/report").text


def test_a_race_whose_jobs_all_failed_says_so(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "p3", "parameter-server")
    while (job_id := next_job(api, racing, race)) is not None:
        fail(api, start_attempt(api, job_id, tmp_path / job_id))
    race = show(api, race)
    assert (race["state"], race["jobs_ended"], race["jobs_failed"]) == ("finished", 2, 2)
    assert race["notes"] == ["Every job of this race failed: nothing was measured"]
    (ranking,) = race["rankings"]
    assert ranking["sentence"] == (
        "No member has figures. p3 failed in round 1. parameter-server failed in round 1"
    )
    assert all(len(s["job_ids"]) == 1 for s in ranking["standings"]), "so that a page can lead to them"


def fail(api: TestClient, posted: Posted) -> None:
    """The attempt fails, and its job with it."""

    def write(session: Session) -> None:
        attempt = session.get_one(record.Attempt, posted.attempt)
        for event in (Event.FAILED, Event.ENDED):
            record.advance(
                session, attempt.job, attempt, event, reason=Reason.PROCESS_KILLED, message="no memory"
            )

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]


def test_a_job_that_fails_takes_its_member_out(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "p3", "parameter-server")
    job_id = next_job(api, racing, race)
    assert job_id is not None
    posted = start_attempt(api, job_id, tmp_path / job_id)
    fail(api, posted)
    assert all("parameter-server" in name for name in run(api, racing, race, tmp_path))
    race = show(api, race)
    (p3,) = [s for s in race["rankings"][0]["standings"] if s["name"] == "p3"]
    assert p3["out"] == "round 1: failed: no memory"
    assert (race["state"], race["jobs"], race["jobs_ended"]) == ("finished", 4, 4)


def test_the_figure_says_of_who_dropped_out_what_the_page_says(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    """The fastest fails in its second round: held against it, the others' order would never be certain."""
    race = submit(api, "ring-allreduce", "p3", "parameter-server", rates=["100Mbit", "1Gbit"])

    def slower(job: dict[str, Any]) -> int:
        if job["strategy"] == "ring-allreduce":
            return 1
        return 2 if ("100Mbit" in job["name"]) == (job["strategy"] == "p3") else 4

    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted, slower=slower(job))
        posted.post_all(api)
        leaves = job["strategy"] == "ring-allreduce" and "round 2" in job["name"]
        (fail if leaves else end_attempt)(api, posted)
    race = show(api, race)
    assert [s["name"] for s in race["rankings"][0]["standings"]] == [
        "p3",
        "parameter-server",
        "ring-allreduce",
    ]
    (crossing,) = race["crossings"]
    drawn = api.get(f"/api/v1/races/{race['id']}/figures/throughput").json()
    assert drawn["layout"]["meta"]["crossings"] == [crossing]


def test_a_server_that_died_goes_on_without_a_second_job(
    api: TestClient, racing: Racing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the job's submission and the race's row of it."""
    race = submit(api, "p3", "parameter-server")
    context = api.app.state.context  # type: ignore[attr-defined]
    submitted = []

    class DiedError(Exception):
        pass

    def dies(spec: Any, key: str) -> Any:
        submitted.append(context.jobs.store(spec, key)[0].id)
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(racing, "_jobs", type("Jobs", (), {"store": staticmethod(dies)}))
        with pytest.raises(DiedError):
            racing.step()
    assert next_job(api, racing, race) == submitted[0]
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_a_page_that_looks_again_has_no_description_read_again(api: TestClient, racing: Racing) -> None:
    race = submit(api, "p3", "parameter-server")
    assert next_job(api, racing, race) is not None
    asked: list[str] = []

    def note(*given: Any) -> None:
        asked.append(given[2])

    events.listen(Engine, "before_cursor_execute", note)
    try:
        show(api, race)
    finally:
        events.remove(Engine, "before_cursor_execute", note)
    assert [statement for statement in asked if "jobs.name" in statement]
    assert not [statement for statement in asked if "jobs.description" in statement]
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_a_cancelled_race_ends_its_job_and_starts_no_other(api: TestClient, racing: Racing) -> None:
    race = submit(api, "p3", "parameter-server")
    job_id = next_job(api, racing, race)
    assert (
        api.delete(f"/api/v1/races/{race['id']}", headers={"Content-Type": "application/json"}).status_code
        == 409
    )
    cancelled = api.post(f"/api/v1/races/{race['id']}/cancel", json={})
    assert cancelled.status_code == 200
    assert (cancelled.json()["state"], show(api, race)["running_job"]) == ("cancelled", None)
    assert api.get(f"/api/v1/jobs/{job_id}").json()["state"] == "cancelled"
    assert next_job(api, racing, race) is None
    more = {"members": [{"strategy": "tree-allreduce", "options": {"nobody": "has"}}]}
    assert api.post(f"/api/v1/races/{race['id']}/members", json=more).status_code == 409, (
        "before it is planned"
    )
    gone = api.delete(f"/api/v1/races/{race['id']}", headers={"Content-Type": "application/json"})
    assert gone.status_code == 204
    assert api.get(f"/api/v1/races/{race['id']}").status_code == 404
    assert api.get(f"/api/v1/jobs/{job_id}").status_code == 200, "its jobs stay"


def test_a_number_that_no_job_can_have_is_refused_at_the_races_field(api: TestClient) -> None:
    for fields, field in (({"workers": [2, 0]}, "workers.1"), ({"batches": [-1]}, "batches.0")):
        answer = api.post("/api/v1/races", json=race_spec("p3", **fields))
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_an_unknown_figure_is_not_found_whatever_the_race_has(api: TestClient) -> None:
    race = submit(api, "p3")
    assert api.get(f"/api/v1/races/{race['id']}/figures/throughput").status_code == 409
    assert api.get(f"/api/v1/races/{race['id']}/figures/troughput").status_code == 404
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_a_submission_is_repeated_under_its_key(api: TestClient) -> None:
    headers = {"Idempotency-Key": "the race"}
    first = api.post("/api/v1/races", json=race_spec("p3", "ring-allreduce"), headers=headers)
    again = api.post("/api/v1/races", json=race_spec("p3", "ring-allreduce"), headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = api.post("/api/v1/races", json=race_spec("p3"), headers=headers)
    assert other.status_code == 409
    items = api.get("/api/v1/races", params={"limit": 1, "fields": "id,members"}).json()["items"]
    assert items == [{"id": first.json()["id"], "members": ["p3", "ring-allreduce"]}]
    api.post(f"/api/v1/races/{first.json()['id']}/cancel", json={})


def test_a_race_says_what_it_waits_for(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    first, second = (submit(api, "p3", "parameter-server", name=name) for name in ("first", "second"))
    assert (first["waits"], second["waits"]) == (None, "waits for the race 'first'")
    items = api.get("/api/v1/races", params={"limit": 2}).json()["items"]
    assert [race["waits"] for race in items] == ["waits for the race 'first'", None]
    job_id = next_job(api, racing, first)
    context = api.app.state.context  # type: ignore[attr-defined]
    wait = Wait(
        job_id=str(job_id),
        position=1,
        reason=Reason.WAITING_FOR_DEVICES,
        text="next in the queue: it runs alone, and 'profile of net:build' runs still",
        blocked_by=(),
    )
    context.database.writer.run(lambda session: changes.wait(session, [wait]))
    assert show(api, first)["waits"] == f"waits with its next job: {wait.text}"
    api.post(f"/api/v1/races/{first['id']}/cancel", json={})
    assert (show(api, first)["waits"], show(api, second)["waits"]) == (None, None)
    api.post(f"/api/v1/races/{second['id']}/cancel", json={})


def test_nobody_takes_the_key_of_a_races_job(api: TestClient) -> None:
    for path, body in (("jobs", job_spec()), ("races", race_spec("p3"))):
        answer = api.post(f"/api/v1/{path}", json=body, headers={"Idempotency-Key": "Race R 0 0 1"})
        assert answer.status_code == 422, answer.text
        assert [error["field"] for error in answer.json()["errors"]] == ["Idempotency-Key"]


def test_a_race_whose_key_somebody_has_leaves_that_member_out_and_goes_on(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    """As stored by a server that took such keys from clients."""
    race = submit(api, "p3", "parameter-server", rounds=1)
    context = api.app.state.context  # type: ignore[attr-defined]
    taken, _ = context.jobs.store(from_plain(JobSpec, job_spec("taken")), f"race {race['id']} 0 0 0")
    api.post(f"/api/v1/jobs/{taken.id}/cancel", json={})
    assert run(api, racing, race, tmp_path) == ["digits: parameter-server, round 1"]
    found = show(api, race)
    outs = {one["name"]: one["out"] for one in found["rankings"][0]["standings"]}
    assert f"was used for another body (job {taken.id})" in outs["p3"]
    assert (outs["parameter-server"], found["state"]) == (None, "finished")


def test_a_race_has_a_report(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "p3", "parameter-server", name="<b>bold</b>")
    run(api, racing, race, tmp_path)
    answer = api.get(f"/api/v1/races/{race['id']}/report")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert f'filename="race-{race["id"]}.html"' in answer.headers["content-disposition"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in answer.text
    assert "<b>bold" not in answer.text
    assert f"commit {commit().split()[0]}" in answer.text, "of this checkout"
    assert "2 x cpu" in answer.text, "the devices that its jobs were given"
    assert api.get("/api/v1/races/nobody/report").status_code == 404
