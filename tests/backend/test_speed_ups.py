"""Speed-ups are stored over time and at the end, with what they rest on; whoever shows them reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database, WriterError
from backend.db.models import Attempt, Job, SpeedUpRow, StepRow
from backend.scheduler import devices, record
from backend.services.speed_ups import REBUILT, SpeedUps
from tests.backend.job_specs import JSON, submit
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt
from tests.backend.recorded_run import add_job

SECOND = 10**9
DEADLINE_S = 60.0
THREADS = (
    "threads per worker: 2 here, 1 in the baseline; they must be equal: submit one of them with the other's "
    "cluster.threads"
)


# --- through the API, with telemetry that is posted ---


def ran(api: TestClient, directory: Path, name: str, *, slower: int = 1, **fields: Any) -> Posted:
    devices = fields.pop("devices", None)
    run = start_attempt(api, submit(api, name, **fields)["id"], directory / name, devices=devices)
    record_steps(run, slower=slower)
    run.post_all(api)
    end_attempt(api, run)
    return run


def samples(api: TestClient, job_id: str) -> list[dict[str, Any]]:
    answer = api.get(f"/api/v1/jobs/{job_id}/speed-ups")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def job(api: TestClient, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/jobs/{job_id}").json()
    return found


@pytest.fixture(scope="module")
def baseline(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    return ran(api, tmp_path_factory.mktemp("jobs"), "baseline", slower=2)


def test_the_last_row_says_what_it_rests_on(api: TestClient, baseline: Posted, tmp_path: Path) -> None:
    run = ran(api, tmp_path, "faster", baseline=baseline.job_id)
    (found,) = samples(api, run.job_id)
    assert found.pop("measured_at").endswith("Z")
    assert found == {
        "step": 19, "first_step": 5, "time_ns": 20 * 50 * 10**6, "final": True,
        "baseline_id": baseline.job_id, "baseline_name": "baseline", "baseline_attempt": 1,
        "baseline_first_step": 5, "baseline_last_step": 19,
        "samples_per_s": 720.0, "baseline_samples_per_s": 360.0,
        "value": 2.0, "low": 2.0, "high": 2.0, "kind": "strong", "refused": [], "caveats": [],
    }  # fmt: skip
    names = api.get(f"/api/v1/jobs/{run.job_id}/metrics/names").json()["items"]
    assert {"name": "speed_up", "last_step": 19} in names
    series = api.get(f"/api/v1/jobs/{run.job_id}/metrics", params={"name": "speed_up"}).json()["series"]
    assert series == {"speed_up": [{"step": 19, "value": 2.0, "time_ns": 10**9}]}


def test_lists_summaries_series_and_figures_show_what_is_stored(
    api: TestClient, baseline: Posted, tmp_path: Path
) -> None:
    """Another value in the table is another value everywhere: nobody computes it again."""
    run = ran(api, tmp_path, "shown", baseline=baseline.job_id)

    def write(session: Session) -> None:
        row = session.scalars(select(SpeedUpRow).where(SpeedUpRow.attempt_id == run.attempt)).one()
        row.value, row.low, row.high, row.caveats = 7.25, 7.0, 7.5, ["it was written by hand"]
        session.get_one(Job, run.job_id).revision += 1
        row.revision = session.get_one(Job, run.job_id).revision

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]
    row = next(one for one in api.get("/api/v1/jobs").json()["items"] if one["id"] == run.job_id)
    assert (row["speed_up"], row["speed_up_caveat"]) == (7.25, "it was written by hand")
    shown = api.get(f"/api/v1/jobs/{run.job_id}/summary").json()["speed_up"]
    assert (shown["value"], shown["low"], shown["high"]) == (7.25, 7.0, 7.5)
    series = api.get(f"/api/v1/jobs/{run.job_id}/metrics", params={"name": "speed_up"}).json()["series"]
    assert [point["value"] for point in series["speed_up"]] == [7.25]
    meta = api.get(f"/api/v1/jobs/{run.job_id}/figures/speed-up").json()["layout"]["meta"]
    assert meta["speed_up"] == 7.25
    assert "with 95 % confidence 7.00 to 7.50" in meta["alt"]
    other = api.get(f"/api/v1/jobs/{run.job_id}/summary", params={"baseline": run.job_id}).json()["speed_up"]
    assert other["value"] == 1, "against another one it is measured for who asks"


def test_a_refusal_is_stored_with_its_reasons(api: TestClient, baseline: Posted, tmp_path: Path) -> None:
    run = ran(api, tmp_path, "wider", baseline=baseline.job_id, cluster={"workers": 2, "threads": 2})
    (found,) = samples(api, run.job_id)
    assert (found["value"], found["refused"]) == (None, [THREADS])
    assert job(api, run.job_id)["speed_up_caveat"] == THREADS


def test_models_of_gpus_that_differ_do_not_compare(api: TestClient, tmp_path: Path) -> None:
    def on(name: str, model: str, **fields: Any) -> Posted:
        return ran(api, tmp_path, name, devices={"cuda:0": model, "cuda:1": model}, **fields)

    first = on("on H200", "NVIDIA H200")
    like, unlike = (
        on(model, model, baseline=first.job_id) for model in ("NVIDIA H200", "NVIDIA A100-SXM4-80GB")
    )
    assert job(api, like.job_id)["speed_up"] == 1
    (found,) = samples(api, unlike.job_id)
    reason = (
        "device model: NVIDIA A100-SXM4-80GB here, NVIDIA H200 in the baseline; they must be equal: run both on "
        "devices of one model"
    )
    assert (found["value"], found["refused"]) == (None, [reason])
    attempts = api.get(f"/api/v1/jobs/{unlike.job_id}/attempts").json()["items"]
    assert attempts[0]["device_models"] == ["NVIDIA A100-SXM4-80GB"] * 2
    race = api.get("/api/v1/race", params={"jobs": f"{first.job_id},{unlike.job_id}"}).json()
    assert "device model" in race["headline"]


def test_another_baseline_is_measured_anew_and_none_leaves_nothing(
    api: TestClient, baseline: Posted, tmp_path: Path
) -> None:
    other = ran(api, tmp_path, "other")
    run = ran(api, tmp_path, "changed", slower=4, baseline=baseline.job_id)
    assert samples(api, run.job_id)[-1]["value"] == 0.5
    url = f"/api/v1/jobs/{run.job_id}/baseline"
    chosen = api.put(url, json={"baseline": other.job_id})
    assert chosen.status_code == 200, chosen.text
    assert (chosen.json()["baseline_id"], chosen.json()["speed_up"]) == (other.job_id, 0.25)
    api.app.state.context.speed_ups.look()  # type: ignore[attr-defined]
    assert {row["baseline_name"] for row in samples(api, run.job_id)} == {"other"}
    assert samples(api, run.job_id)[-1]["value"] == 0.25
    none = api.put(url, json={"baseline": None}).json()
    assert (none["baseline_id"], none["speed_up"], samples(api, run.job_id)) == (None, None, [])
    for wrong, rule in ((run.job_id, "not its own baseline"), ("nobody", "no such job")):
        refused = api.put(url, json={"baseline": wrong})
        assert (refused.status_code, rule in refused.text) == (422, True)
    assert api.put("/api/v1/jobs/nobody/baseline", json={"baseline": None}, headers=JSON).status_code == 404


def test_the_service_measures_by_itself(api: TestClient, baseline: Posted, tmp_path: Path) -> None:
    """Nobody asks, and no test calls it."""
    run = start_attempt(api, submit(api, "alone", baseline=baseline.job_id)["id"], tmp_path)
    record_steps(run)
    run.post_all(api)
    deadline = time.monotonic() + DEADLINE_S
    # The first look may have come before the last batch; then there is another one.
    while [(row["value"], row["final"]) for row in samples(api, run.job_id)] != [(2, False)]:
        assert time.monotonic() < deadline, f"not stored after {DEADLINE_S:g} s: {samples(api, run.job_id)}"
        time.sleep(0.1)
    end_attempt(api, run)
    assert [(row["value"], row["final"]) for row in samples(api, run.job_id)] == [(2, True)]


# --- over time, on a clock of our own ---


@pytest.fixture
def service(database: Database) -> Iterator[SpeedUps]:
    """Started, and then only used by the test."""
    service = SpeedUps(database)
    service.start()
    yield service
    service.close()


def add_steps(database: Database, job_id: str, first: int, last: int, *, seconds: float = 1.0) -> None:
    """Steps `first` to `last` of both workers, each as long, from where the former ended."""

    def write(session: Session) -> None:
        attempt = session.scalars(select(Attempt.id).where(Attempt.job_id == job_id)).one()
        ended = session.scalar(select(func.max(StepRow.end_ns)).where(StepRow.attempt_id == attempt)) or 0
        for step in range(first, last + 1):
            for party in (0, 1):
                start, end = (ended + int((step - first + more) * seconds * SECOND) for more in (0, 1))
                session.add(
                    StepRow(
                        attempt_id=attempt, step=step, party=party, start_ns=start, end_ns=end, samples=32,
                        loss=1.0, exposed_ns=0, compute_ns=end - start, input_ns=0,
                    )
                )  # fmt: skip
        record.tell(session, session.get_one(Job, job_id))

    database.writer.run(write)


def set_state(database: Database, job_id: str, state: str) -> None:
    def write(session: Session) -> None:
        job = session.get_one(Job, job_id)
        job.state = state
        job.ended_unix_ns = None if state == "running" else job.started_unix_ns + 100  # type: ignore[operator]
        record.tell(session, job)

    database.writer.run(write)


def rows(database: Database, job_id: str) -> list[SpeedUpRow]:
    with database.read() as session:
        query = select(SpeedUpRow).join(Attempt, Attempt.id == SpeedUpRow.attempt_id)
        return list(session.scalars(query.where(Attempt.job_id == job_id).order_by(SpeedUpRow.step)))


def revision(database: Database, job_id: str) -> int:
    with database.read() as session:
        return session.get_one(Job, job_id).revision


def new_job(database: Database, name: str, baseline: str | None = None) -> str:
    new_job.started += 1_000  # type: ignore[attr-defined]
    job_id, _ = add_job(database, name, started=new_job.started, baseline=baseline)  # type: ignore[attr-defined]
    return job_id


new_job.started = 10**6  # type: ignore[attr-defined]


def test_a_running_job_is_measured_again_and_again(database: Database, service: SpeedUps) -> None:
    baseline = new_job(database, "baseline")
    add_steps(database, baseline, 0, 39)
    run = new_job(database, "running", baseline)
    set_state(database, run, "running")
    service.look()
    assert [(row.step, row.value, row.refused) for row in rows(database, run)] == [
        (-1, None, ["throughput: this job has none after the warm-up yet (14 more steps for a sure one)"])
    ]
    for first in range(0, 60, 2):
        add_steps(database, run, first, first + 1, seconds=1.0 if first < 30 else 0.5)
        service.look()
    found = rows(database, run)
    assert len(found) > 5
    values = [row.value for row in found]
    assert None not in values, "what was not known yet made room for what is"
    assert values[0] == 1
    assert values == sorted(values)  # type: ignore[type-var]
    assert found[-1].step == 59
    apart = [later.at_ns - row.at_ns for row, later in pairwise(found[:-1])]
    assert min(apart) >= 5 * SECOND, "near ones move along"
    assert not any(row.final for row in found)
    set_state(database, run, "succeeded")
    service.look()
    assert [row.final for row in rows(database, run)] == [*[False] * (len(found) - 1), True]


def test_measuring_again_what_is_known_tells_nobody(database: Database, service: SpeedUps) -> None:
    """Also where two jobs are each other's baseline."""
    one = new_job(database, "one")
    two = new_job(database, "two", one)
    database.writer.run(lambda session: setattr(session.get_one(Job, one), "baseline_id", two))
    for each in (one, two):
        add_steps(database, each, 0, 39)
    for _ in range(4):
        service.look()
    at_rest = [(revision(database, each), rows(database, each)[-1].value) for each in (one, two)]
    for _ in range(3):
        service.look()
    assert [(revision(database, each), rows(database, each)[-1].value) for each in (one, two)] == at_rest
    assert [value for _, value in at_rest] == [1, 1]
    for each, other in ((one, two), (two, one)):
        newest = rows(database, each)[-1]
        assert (newest.revision, newest.baseline_revision) == tuple(
            revision(database, e) for e in (each, other)
        )


def test_measuring_a_refusal_again_tells_nobody(database: Database, service: SpeedUps) -> None:
    """Also where two jobs that do not compare are each other's baseline."""
    one = new_job(database, "one")
    two = new_job(database, "two", one)

    def write(session: Session) -> None:
        session.get_one(Job, one).baseline_id = two
        job = session.get_one(Job, two)
        job.spec = {**job.spec, "cluster": {**job.spec["cluster"], "threads": 2}}

    database.writer.run(write)
    for each in (one, two):
        add_steps(database, each, 0, 39)
    for _ in range(4):
        service.look()
    at_rest = [revision(database, each) for each in (one, two)]
    assert [rows(database, each)[-1].value for each in (one, two)] == [None, None]
    for _ in range(3):
        service.look()
    assert [revision(database, each) for each in (one, two)] == at_rest


def test_who_ended_first_is_measured_again_when_its_baseline_has_ended(
    database: Database, service: SpeedUps
) -> None:
    baseline = new_job(database, "slow start")
    set_state(database, baseline, "running")
    add_steps(database, baseline, 0, 19, seconds=2.0)
    run = new_job(database, "sooner", baseline)
    add_steps(database, run, 0, 39)
    service.look()
    assert [(row.value, row.final) for row in rows(database, run)][-1] == (2, False)
    add_steps(database, baseline, 20, 119, seconds=4.0)
    set_state(database, baseline, "succeeded")
    service.look()
    newest = rows(database, run)[-1]
    assert (newest.value, newest.final, newest.baseline_last_step) == (4, True, 119)


def test_a_new_life_measures_what_the_last_one_left(database: Database) -> None:
    baseline = new_job(database, "before")
    add_steps(database, baseline, 0, 39)
    run = new_job(database, "left", baseline)
    add_steps(database, run, 0, 199)
    assert rows(database, run) == []
    service = SpeedUps(database)
    service.start()
    try:
        service.look()
    finally:
        service.close()
    found = rows(database, run)
    assert len(found) == REBUILT, "over time, too"
    assert (found[0].step < 20, found[-1].step) == (True, 199)
    assert [row.final for row in found] == [*[False] * (REBUILT - 1), True]
    assert {row.value for row in found} == {1}


def test_what_the_database_refused_is_stored_without_further_news(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = new_job(database, "base of a refused one")
    add_steps(database, baseline, 0, 39)
    run = new_job(database, "refused", baseline)
    add_steps(database, run, 0, 39)
    service = SpeedUps(database)
    service.look()  # all that other tests left
    add_steps(database, run, 40, 79)
    before = rows(database, run)
    with monkeypatch.context() as patch:
        patch.setattr(database.writer, "run", refuse)
        with pytest.raises(WriterError):
            service.look()
    assert [row.step for row in rows(database, run)] == [row.step for row in before]
    service.look()
    assert rows(database, run)[-1].step == 79


def refuse(*_: Any) -> None:
    raise WriterError("write transaction not done after 60 s")


def test_a_processor_is_called_what_the_kernel_calls_it(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: AMD EPYC  7B13\nprocessor\t: 1\nmodel name\t: other\n")
    assert devices.cpu_model(info) == "AMD EPYC 7B13"
    info.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    assert devices.cpu_model(info) == devices.cpu_model(tmp_path / "missing") == ""
    slots = devices.take_inventory(2).of("cpu")
    assert {slot.model for slot in slots} == {devices.cpu_model()}
