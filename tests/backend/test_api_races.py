"""Races over HTTP: submitted, run one job after another, ranked, added to, cancelled, deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from sqlalchemy import event as events

from backend.services.racing import Racing
from engine.benchmarks.harness.machine import commit
from tests.backend.raced_jobs import next_job, race_spec, run, show, submit


def test_a_race_runs_its_rounds_and_says_who_is_fastest(
    api: TestClient, racing: Racing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    with monkeypatch.context() as patched:
        patched.setattr("backend.services.drawing.LIMIT_S", 0)  # nobody has time to look for causes
        assert show(api, race)["rankings"][0]["sentence"].startswith("p3 finishes a step 3.00x sooner")
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
        assert (first["processors"], first["port_busy"], first["one_port_busy"]) == (None,) * 3, (
            "none recorded them"
        )
        assert first["limit"]["sentence"].endswith("processors not measured")
    assert race["crossings"] == []
    sides = [one["standings"] for one in race["rankings"]]
    same = ",".join(one["job_ids"][0] for one in sides[0])
    beside = api.get("/api/v1/race", params={"jobs": same})
    verdict = "Rounds of their race: p3 finishes a step 3.00x sooner than parameter-server"
    assert beside.json()["headline"].endswith(f". {verdict}"), "one judgement"
    apart = ",".join((sides[0][0]["job_ids"][0], sides[1][1]["job_ids"][0]))
    for others in (apart, ",".join(sides[0][0]["job_ids"])):
        told = api.get("/api/v1/race", params={"jobs": others}).json()["headline"]
        assert "Rounds of their race" not in told, "these are no members of one condition"
    api.delete(f"/api/v1/jobs/{sides[0][1]['job_ids'][2]}", headers={"Content-Type": "application/json"})
    renewed = api.get(
        "/api/v1/race", params={"jobs": same}, headers={"If-None-Match": beside.headers["etag"]}
    )
    assert (
        "Rounds of their race: Nobody can tell who is fastest: 2 rounds are too few"
        in renewed.json()["headline"]
    )
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


def test_a_server_that_died_goes_on_without_a_second_job(
    api: TestClient, racing: Racing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the job's submission and the race's row of it."""
    race = submit(api, "p3", "parameter-server")
    context = api.app.state.context  # type: ignore[attr-defined]
    submitted = []

    class DiedError(Exception):
        pass

    def dies(spec: Any, key: str, **given: Any) -> Any:
        submitted.append(context.jobs.store(spec, key, **given)[0].id)
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


def test_a_members_option_that_does_not_exist_is_refused_at_the_member(api: TestClient) -> None:
    spec = race_spec("p3") | {"members": [{"strategy": "p3", "options": {"nope": 1}}]}
    answer = api.post("/api/v1/races", json=spec)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "members.0.options.nope"


def test_one_members_misspelled_option_refuses_the_whole_race(api: TestClient, racing: Racing) -> None:
    """Before anything starts, and every mistake at once; the others would have raced without it."""
    before = api.get("/api/v1/races", params={"limit": 1}).json()["items"]
    wrong = [
        {"strategy": "parameter-server"},
        {"strategy": "p3", "options": {"slice_sizes": 500}},
        {
            "strategy": "ring-allreduce",
            "overrides": [{"layers": "*", "strategy": "p3", "options": {"nope": 1}}],
        },
    ]
    answer = api.post("/api/v1/races", json=race_spec() | {"members": wrong})
    assert answer.status_code == 422, answer.text
    first, second = answer.json()["errors"]
    assert (first["field"], first["value"]) == ("members.1.options.slice_sizes", 500)
    assert "slice_size" in first["remedy"]
    assert first["rule"]
    assert second["field"] == "members.2.overrides.0.options.nope"
    assert api.get("/api/v1/races", params={"limit": 1}).json()["items"] == before
    race = submit(api, "parameter-server")
    late = {"members": [{"strategy": "ring-allreduce"}, wrong[1]]}
    answer = api.post(f"/api/v1/races/{race['id']}/members", json=late)
    assert answer.status_code == 422
    fields = [error["field"] for error in answer.json()["errors"]]
    assert fields == ["members.1.options.slice_sizes"], "as they were asked for"
    assert show(api, race)["members"] == ["parameter-server"]
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_nobody_joins_by_an_empty_list(api: TestClient) -> None:
    race = submit(api, "p3")
    answer = api.post(f"/api/v1/races/{race['id']}/members", json={"members": []})
    assert answer.status_code == 422
    assert "nobody joins" in answer.text
    api.post(f"/api/v1/races/{race['id']}/cancel", json={})


def test_races_are_found_by_their_name_or_the_beginning_of_their_id(api: TestClient) -> None:
    """By a command, for example, that is given a part of an id: without reading all others."""
    one, other = (submit(api, "p3", name=name) for name in ("on the slow link", "elsewhere"))

    def found(text: str) -> set[str]:
        return {race["id"] for race in api.get("/api/v1/races", params={"text": text}).json()["items"]}

    assert found("SLOW") == {one["id"]}
    assert found(other["id"].upper()) == {other["id"]}
    assert found(one["id"][:4]) >= {one["id"], other["id"]}, "made within a day"
    assert found(one["id"][:3]) == set()
    assert found("%") == set()
