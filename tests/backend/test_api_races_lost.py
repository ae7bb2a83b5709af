"""Races that lose something: a member, a job, its figures, a key or its turn."""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.cli.races import report
from backend.db.models import Job
from backend.lifecycle import Event, Reason
from backend.scheduler import changes, record
from backend.scheduler.instructions import Wait
from backend.schemas.races import RaceView
from backend.services.racing import Racing
from backend.tables import RaceTable
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt
from tests.backend.raced_jobs import SLOWER, next_job, race_spec, run, show, submit


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
    delete(api, last)
    after = show(api, race)
    note = "The figures of 1 job were deleted: what is said here rests on the others"
    assert after["notes"] == [note]
    assert "parameter-server has lost the figures of 1 job" in after["rankings"][0]["sentence"]
    assert note in api.get(f"/api/v1/races/{race['id']}/report").text


def delete(api: TestClient, *job_ids: str) -> None:
    for job_id in job_ids:
        answer = api.delete(f"/api/v1/jobs/{job_id}", headers={"Content-Type": "application/json"})
        assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
def test_who_lost_jobs_of_any_rounds_has_not_joined_later(
    api: TestClient, racing: Racing, tmp_path: Path, lost: tuple[int, ...]
) -> None:
    race = submit(api, "p3", "parameter-server", rounds=4)
    run(api, racing, race, tmp_path)
    (before,) = show(api, race)["rankings"]
    delete(api, *(before["standings"][1]["job_ids"][round_] for round_ in lost))
    (after,) = show(api, race)["rankings"]
    assert [one["joined_s"] for one in after["standings"]] == [None, None]
    left = 4 - len(lost)
    rounds = [one["rounds"] for one in after["standings"] if one["times_fastest"] is not None]
    assert rounds == [left, left], "those that both still have"


@pytest.mark.parametrize("lost", [(0, 1), (0, 1, 2)])
def test_who_joined_late_is_late_also_without_the_jobs_that_caught_up(
    api: TestClient, racing: Racing, tmp_path: Path, lost: tuple[int, ...]
) -> None:
    """All three rounds were over: what is left of it ran beside nobody."""
    race = submit(api, "p3", "parameter-server")
    run(api, racing, race, tmp_path)
    joins = {"members": [{"strategy": "parameter-server", "name": "late"}]}
    assert api.post(f"/api/v1/races/{race['id']}/members", json=joins).status_code == 200
    run(api, racing, race, tmp_path)
    before = place_of(api, race, "late")
    assert before["joined_s"] is not None
    delete(api, *(before["job_ids"][round_] for round_ in lost))
    after = place_of(api, race, "late")
    assert (after["joined_s"], after["rank"]) == (before["joined_s"], None)


def test_who_joined_late_and_lost_what_caught_up_is_compared_over_the_rounds_that_are_left(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    race = submit(api, "p3", "parameter-server", rounds=5)
    for _ in range(4):
        job_id = next_job(api, racing, race)
        assert job_id is not None
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted)
        posted.post_all(api)
        end_attempt(api, posted)
    joins = {"members": [{"strategy": "parameter-server", "name": "late"}]}
    assert api.post(f"/api/v1/races/{race['id']}/members", json=joins).status_code == 200
    run(api, racing, race, tmp_path)
    before = place_of(api, race, "late")
    assert (before["rounds"], before["joined_s"] is None) == (3, False)
    delete(api, *before["job_ids"][:2])
    after = place_of(api, race, "late")
    assert (after["rounds"], after["joined_s"]) == (3, before["joined_s"])
    assert "joined" in after["remark"]


def place_of(api: TestClient, race: dict[str, Any], name: str) -> dict[str, Any]:
    (ranking,) = show(api, race)["rankings"]
    (found,) = [one for one in ranking["standings"] if one["name"] == name]
    return dict(found)


def test_a_race_whose_jobs_all_failed_says_so(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "p3", "parameter-server")
    while (job_id := next_job(api, racing, race)) is not None:
        fail(api, start_attempt(api, job_id, tmp_path / job_id))
    race = show(api, race)
    assert (race["state"], race["jobs_ended"], race["jobs_failed"]) == ("failed", 2, 2)
    assert "failed, round 1, 2 of 2 jobs ended" in report(RaceView(**race)), "so the terminal says"
    listed = api.get("/api/v1/races", params={"limit": 1}).json()["items"]
    assert [one["state"] for one in listed] == ["failed"]
    refused = api.post(f"/api/v1/races/{race['id']}/cancel", json={})
    assert (refused.status_code, "has failed: there is nothing to cancel" in refused.text) == (409, True)
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


def test_who_failed_late_has_no_place_wherever_it_is_said(
    api: TestClient, racing: Racing, tmp_path: Path
) -> None:
    """The fastest fails in its fourth round: it is not named the fastest, and the others keep all four."""
    race = submit(api, "p3", "ring-allreduce", "parameter-server", rounds=4)
    failed = ""
    while (job_id := next_job(api, racing, race)) is not None:
        job = api.get(f"/api/v1/jobs/{job_id}").json()
        posted = start_attempt(api, job_id, tmp_path / job_id)
        record_steps(posted, slower=SLOWER[job["strategy"]])
        posted.post_all(api)
        if job["strategy"] == "p3" and "round 4" in job["name"]:
            failed = job_id
            fail(api, posted)
        else:
            end_attempt(api, posted)
    shown = show(api, race)
    (ranking,) = shown["rankings"]
    assert [(one["name"], one["rank"], one["rounds"]) for one in ranking["standings"]] == [
        ("ring-allreduce", 1, 4), ("parameter-server", 2, 4), ("p3", None, 3),
    ]  # fmt: skip
    assert ranking["standings"][2]["remark"] == (
        "failed in round 4 and has no place: in the 3 rounds that both ran it was 2.00x as fast as ring-allreduce "
        "(2.00x to 2.00x)"
    )
    assert shown["decided"]
    sentence = ranking["sentence"]
    assert sentence.startswith("ring-allreduce finishes a step 1.50x sooner than parameter-server")
    assert f"p3 {ranking['standings'][2]['remark']}" in sentence
    view = RaceView.model_validate(shown)
    page = html.unescape(api.get(f"/api/v1/races/{race['id']}/report").text)
    for text in (report(view), " ".join(repr(RaceTable.of(view)).split()), page):
        assert sentence in text
        assert "p3 takes no part: round 4: failed: no memory" in re.sub("</?b>", "", text)
    delete(api, failed)
    assert place_of(api, race, "p3")["rank"] is None, "nor without the job that failed"
    delete(api, *ranking["standings"][1]["job_ids"])
    assert not show(api, race)["decided"], "one is left"


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
