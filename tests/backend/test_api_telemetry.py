"""Telemetry in over HTTP and out again: series, events, logs, summary, figures."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from backend.cli import jobs as terminal
from backend.executors import files
from backend.executors.base import Ended
from backend.executors.log_times import LogTimes
from backend.lifecycle import Reason
from backend.schemas.jobs import Job
from backend.services.progress import Progress
from backend.services.series import thin
from engine.telemetry import batch as wire
from engine.telemetry import measured
from tests.backend.job_specs import submit
from tests.backend.posted_run import (
    MS,
    SAMPLES,
    STEP_MS,
    STEPS,
    Posted,
    end_attempt,
    record_steps,
    start_attempt,
)


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    """A job whose telemetry was posted, and its directory with logs."""
    directory = tmp_path_factory.mktemp("attempt")
    posted = start_attempt(api, submit(api, "posted")["id"], directory)
    record_steps(posted)
    posted.post_all(api)
    end_attempt(api, posted)
    (directory / "logs").mkdir()
    (directory / "logs" / "worker-0.log").write_text("Größe: 3 µs\n" * 1000, encoding="utf-8")
    return posted


def get(api: TestClient, run: Posted, path: str, **query: object) -> dict[str, object]:
    answer = api.get(f"/api/v1/jobs/{run.job_id}/{path}", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_the_list_shows_what_was_measured(api: TestClient, run: Posted) -> None:
    (row,) = api.get("/api/v1/jobs", params={"text": "posted"}).json()["items"]
    assert (row["step"], row["steps"], row["state"], row["reason"]) == (STEPS, 20, "succeeded", "completed")
    assert row["iteration_ms"] == max(STEP_MS)
    assert row["samples_per_s"] == pytest.approx(sum(SAMPLES * 1000 / ms for ms in STEP_MS))
    assert row["test_accuracy"] == 0.875
    assert row["loss"] == pytest.approx(1 / STEPS)


@pytest.mark.parametrize(
    ("common", "versions", "words"),
    [
        (
            False,
            (37, 41),
            f"worker 0's own model, after its step {STEPS - 1}, its units at versions 37 to 41",
        ),
        (
            True,
            (40, 40),
            f"the model that all workers end with, after its step {STEPS - 1}, its units at version 40",
        ),
    ],
)
def test_where_workers_drift_an_accuracy_says_of_which_model_it_is(
    api: TestClient, tmp_path: Path, common: bool, versions: tuple[int, int], words: str
) -> None:
    job = submit(api, "drifts", strategy={"name": "async-sgd"})
    posted = start_attempt(api, job["id"], tmp_path)
    record_steps(posted, beside=measured.metrics_of(common=common, versions=versions))
    posted.post_all(api)
    end_attempt(api, posted)
    shown = Job.model_validate(api.get(f"/api/v1/jobs/{posted.job_id}").json())
    assert (shown.test_accuracy, shown.accuracy_of) == (0.875, words)
    assert get(api, posted, "summary")["accuracy_of"] == words
    assert terminal.accuracy(shown) == f"87.5 % (of {words})"


def test_where_all_hold_the_same_an_accuracy_needs_no_words(api: TestClient, run: Posted) -> None:
    shown = Job.model_validate(api.get(f"/api/v1/jobs/{run.job_id}").json())
    assert (shown.accuracy_of, terminal.accuracy(shown)) == (None, "87.5 %")


def test_the_summary_follows_the_definitions(api: TestClient, run: Posted) -> None:
    summary = get(api, run, "summary")
    assert summary["iteration_ms"] == 50
    assert summary["exposed_ms"] == 5
    assert summary["compute_ms"] == 25
    assert summary["exposed_worker"] is None, "it all fits into an iteration"
    assert summary["steps"] == STEPS
    assert summary["window_steps"] == STEPS - 5  # warm-up left out
    assert summary["duration_s"] == pytest.approx(STEPS * 0.05)


def test_series_hold_every_step(api: TestClient, run: Posted) -> None:
    series = get(api, run, "metrics")["series"]
    assert isinstance(series, dict)
    assert [point["step"] for point in series["loss"]] == list(range(STEPS))
    assert [point["value"] for point in series["loss"]] == pytest.approx([1 / (1 + s) for s in range(STEPS)])
    assert {point["value"] for point in series["iteration_ms"]} == {50}
    assert {point["value"] for point in series["throughput"]} == {2 * SAMPLES * 1000 / 50}
    assert series["test_accuracy"] == [{"step": STEPS - 1, "value": 0.875, "time_ns": STEPS * 40 * MS}]
    assert list(get(api, run, "metrics", name="loss")["series"]) == ["loss"]  # type: ignore[call-overload]
    part = get(api, run, "metrics", step_from=3, step_to=6)["series"]
    assert isinstance(part, dict)
    assert part["loss"] == series["loss"][3:7]
    assert part["throughput"] == series["throughput"][3:6]  # the last one's length is not known from inside
    assert "test_accuracy" not in part
    assert get(api, run, "metrics", name="test_accuracy", step_to=2)["series"] == {}
    unknown = api.get(f"/api/v1/jobs/{run.job_id}/metrics", params={"name": "los"})
    assert unknown.status_code == 422
    assert "'loss'" in unknown.json()["errors"][0]["remedy"]


def test_thinning_keeps_ends_and_spikes() -> None:
    value = np.zeros(100_000)
    value[[777, 50_001]] = 9, -9
    value[1234] = np.nan
    kept = thin(value)
    assert len(kept) <= 2_000
    assert {0, 777, 50_001, 99_999} <= set(kept.tolist())
    assert thin(np.full(5_000, np.nan)).tolist()[-1] == 4_999


def test_events_are_columns_in_order(api: TestClient, run: Posted) -> None:
    events = get(api, run, "events", step_from=3, step_to=4)
    assert set(events["step"]) == {3, 4}  # type: ignore[call-overload]
    assert events["start_ns"] == sorted(events["start_ns"])  # type: ignore[call-overload]
    assert set(events["kind"]) == {"forward", "send"}  # type: ignore[call-overload]
    assert len(events["step"]) == 2 * 2 * 2  # type: ignore[arg-type]
    assert events["parties"] == ["worker 0", "worker 1"]
    assert events["truncated"] is False
    columns = zip(events["worker"], events["kind"], events["clock"], strict=True)  # type: ignore[call-overload]
    assert set(columns) == {
        (0, "forward", "host"), (1, "forward", "cuda"), (0, "send", "host"), (1, "send", "host"),
    }  # fmt: skip
    few = get(api, run, "events", step_from=0, step_to=STEPS, limit=5, worker=1)
    assert (len(few["step"]), set(few["worker"]), few["truncated"]) == (5, {1}, True)  # type: ignore[arg-type,call-overload]
    newest = get(api, run, "events")
    assert (events["newest_step"], newest["newest_step"]) == (STEPS - 1, STEPS - 1)
    assert set(newest["step"]) == set(range(STEPS - 10, STEPS))  # type: ignore[call-overload]


def test_the_newest_step_with_events_is_one_that_all_workers_sent(api: TestClient, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "half there")["id"], tmp_path)
    assert get(api, posted, "events")["newest_step"] is None
    record_steps(posted)
    first, second = posted.batches
    assert posted.post(api, first).status_code == 200
    assert get(api, posted, "events", fields="step")["newest_step"] is None
    bare = wire.encode(replace(wire.decode(second).without_detail(), sequence=0))
    assert posted.post(api, bare).status_code == 200  # it ended its steps, and kept no event
    assert get(api, posted, "events")["newest_step"] is None
    later = wire.decode(second)
    events = later.table("events")
    kept = {"events": events[events["step"] <= 7]}
    assert posted.post(api, wire.encode(replace(later, sequence=1, tables=kept))).status_code == 200
    assert get(api, posted, "events", step_from=2, step_to=2, kind="send")["newest_step"] == 7


def test_pieces_of_a_log_put_together_are_the_log(api: TestClient, run: Posted) -> None:
    text, offset = "", 0
    while True:
        piece = get(api, run, "logs", party="worker 0", offset=offset, limit=257)
        if piece["next_offset"] == offset:
            break
        text += str(piece["text"])
        offset = int(str(piece["next_offset"]))
    assert text == "Größe: 3 µs\n" * 1000
    assert offset == piece["size"]
    assert str(get(api, run, "logs", offset=-15)["text"]).endswith("Größe: 3 µs\n")


def test_the_supervisors_log_is_offered_where_there_is_one(api: TestClient, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "supervised")["id"], tmp_path)
    assert get(api, posted, "logs")["parties"] == ["worker 0", "worker 1"]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "supervisor.log").write_text("cannot start worker 0\n", encoding="utf-8")
    assert get(api, posted, "logs")["party"] == "worker 0"
    found = get(api, posted, "logs", party="supervisor")
    assert found["text"] == "cannot start worker 0\n"
    assert found["parties"] == ["worker 0", "worker 1", "supervisor"]


def test_a_log_says_who_failed_and_when_its_lines_were_written(api: TestClient, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "unlucky one")["id"], tmp_path)
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "worker-1.log"
    times = LogTimes([log])
    for now, text in ((5_000, "one\n"), (7_000, "one\ntwo\n")):
        log.write_text(text)
        times.note(now)
    assert get(api, posted, "logs", party="worker 1")["times"] == {"until": [4, 8], "unix_ms": [5_000, 7_000]}
    assert get(api, posted, "logs", party="worker 1", offset=4)["times"] == {"until": [8], "unix_ms": [7_000]}
    found = get(api, posted, "logs")
    assert (found["failed"], found["times"]) == (None, {"until": [], "unix_ms": []})
    end = Ended(status="failed", reason=Reason.PROCESS_FAILED, message="", ended_unix_ns=1, party="worker 1")
    files.write_end(tmp_path, end)
    found = get(api, posted, "logs")
    assert (found["party"], found["failed"]) == ("worker 0", "worker 1"), "who follows stays where it was"


def test_a_whole_log_is_a_file_that_says_whose_it_is(api: TestClient, run: Posted) -> None:
    url = f"/api/v1/jobs/{run.job_id}/logs/file"
    answer = api.get(url, params={"party": "worker 0"})
    assert answer.content.decode() == "Größe: 3 µs\n" * 1000
    assert answer.headers["content-disposition"] == 'attachment; filename="posted-worker-0-attempt-1.log"'
    assert "has not started" in api.get(url, params={"party": "worker 1"}).text
    assert api.get(url, params={"party": "../x"}).status_code == 422


@pytest.mark.parametrize("party", ["../../../etc/passwd", "worker 7", "worker-0.log", "/etc/passwd"])
def test_logs_are_of_parties_and_never_of_paths(api: TestClient, run: Posted, party: str) -> None:
    answer = api.get(f"/api/v1/jobs/{run.job_id}/logs", params={"party": party})
    assert answer.status_code == 422
    assert "worker 0, worker 1" in answer.json()["errors"][0]["remedy"]


def test_a_repeated_batch_changes_nothing(api: TestClient, run: Posted) -> None:
    before = api.get(f"/api/v1/jobs/{run.job_id}").json()
    answer = run.post(api, run.batches[0])
    assert (answer.status_code, answer.json()["repeated"]) == (200, True)
    assert api.get(f"/api/v1/jobs/{run.job_id}").json() == before


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic wrong"])
def test_telemetry_needs_the_attempts_own_token(api: TestClient, run: Posted, header: str) -> None:
    answer = run.post(api, run.batches[0], Authorization=header)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_is_no_batch_is_refused(api: TestClient, run: Posted) -> None:
    assert run.post(api, b"nonsense").status_code == 400


def test_a_sealed_attempt_takes_no_more(api: TestClient, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "sealed")["id"], tmp_path)
    record_steps(posted)
    posted.post_all(api)
    last = {"0": 0, "1": 0}
    assert posted.seal(api, last | {"1": 1}).status_code == 409  # one is missing
    for wrong in (last | {"1": -2}, last | {"-1": 0}):
        assert posted.seal(api, wrong).status_code == 422
    assert posted.seal(api, last).json() == {"batches": 2, "repeated": False}
    assert posted.seal(api, last).json() == {"batches": 2, "repeated": True}
    assert api.get(f"/api/v1/jobs/{posted.job_id}").json()["attempts"][0]["sealed"] is True
    other = start_attempt(api, submit(api, "other")["id"], tmp_path)
    record_steps(other)
    assert posted.post(api, other.batches[0]).status_code in {400, 410}


def test_figures_are_answered_again_only_when_the_data_changed(api: TestClient, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "drawn")["id"], tmp_path)
    record_steps(posted)
    posted.post(api, posted.batches[0])
    path = f"/api/v1/jobs/{posted.job_id}/figures/loss"
    first = api.get(path)
    assert first.status_code == 200
    assert "data" in first.json()
    tag = {"If-None-Match": first.headers["etag"]}
    again = api.get(path, headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert api.get(path, params={"theme": "dark"}, headers=tag).status_code == 200
    posted.post(api, posted.batches[1])
    assert api.get(path, headers=tag).status_code == 200


def test_figures_are_compressed_where_that_is_understood(api: TestClient, run: Posted) -> None:
    path = f"/api/v1/jobs/{run.job_id}/figures/loss"
    plain = api.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with api.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == plain.content
    assert plain.json()["data"]


def test_every_figure_of_the_catalogue_is_answered(api: TestClient, run: Posted) -> None:
    for entry in api.get("/api/v1/figures").json():
        figure = get(api, run, f"figures/{entry['name']}", width=800)
        assert {"data", "layout"} <= set(figure)


def test_a_race_of_jobs_that_wait_says_so(api: TestClient) -> None:
    ids = [submit(api, "waits")["id"] for _ in range(2)]
    race = api.get("/api/v1/race", params={"jobs": ",".join(ids)}).json()
    assert race["step"] is None
    assert race["steps"] == {"min": None, "max": None, "previous": None, "next": None}
    assert race["aligned"] is False
    assert [job["state"] for job in race["jobs"]] == ["queued", "queued"]


def test_a_race_and_a_speed_up_over_the_baseline(api: TestClient, run: Posted, tmp_path: Path) -> None:
    posted = start_attempt(api, submit(api, "slow", baseline=run.job_id)["id"], tmp_path)
    record_steps(posted, slower=2)
    posted.post_all(api)
    end_attempt(api, posted)
    faster = get(api, posted, "summary")["speed_up"]
    assert isinstance(faster, dict)
    assert (faster["value"], faster["kind"], faster["comparable"]) == (0.5, "strong", True)
    other_way = get(api, run, "summary", baseline=posted.job_id)["speed_up"]
    assert isinstance(other_way, dict)
    assert other_way["value"] == 2
    answer = api.get("/api/v1/race", params={"jobs": f"{run.job_id},{posted.job_id}", "step": 7})
    assert answer.status_code == 200, answer.text
    race = answer.json()
    assert [job["id"] for job in race["jobs"]] == [run.job_id, posted.job_id]
    assert race["step"] == 7
    assert race["steps"]["previous"] == 6
    assert race["headline"]
    assert race["figure"]["data"]
    tag = {"If-None-Match": answer.headers["etag"]}
    assert api.get(str(answer.request.url), headers=tag).status_code == 304
    window = {"from_ns": 1_000_000, "to_ns": 2_000_000}
    close = api.get(str(answer.request.url), params={**answer.request.url.params, **window})
    assert close.headers["etag"] != answer.headers["etag"]
    assert {name: close.json()["figure"]["layout"]["meta"][name] for name in window} == window
    half = api.get(str(answer.request.url), params={**answer.request.url.params, "from_ns": 5})
    assert half.status_code == 422
    assert "give both or neither" in half.text


def test_a_convergence_speed_up_compares_only_what_a_speed_up_does(api: TestClient, tmp_path: Path) -> None:
    """The same target reached in half the time: twice as soon, but not by another model."""

    def posted(name: str, *, slower: int, target: float = 0.8, **changes: object) -> Posted:
        training = {"steps": STEPS, "global_batch": 32, "target_accuracy": target}
        found = start_attempt(api, submit(api, name, training=training, **changes)["id"], tmp_path)
        record_steps(found, slower=slower)
        found.post_all(api)
        end_attempt(api, found)
        return found

    slow, fast = posted("late", slower=2), posted("soon", slower=1)
    sooner = get(api, fast, "summary", baseline=slow.job_id)
    assert (sooner["time_to_target_s"], sooner["convergence_speed_up"]) == (STEPS * 0.04, 2)
    assert get(api, fast, "summary")["convergence_speed_up"] is None  # compared with none
    other = get(api, posted("other", slower=1, model={"name": "cnn"}), "summary", baseline=slow.job_id)
    assert (other["time_to_target_s"], other["convergence_speed_up"]) == (STEPS * 0.04, None)
    assert "work: cnn on digits" in other["speed_up"]["why_not"]  # type: ignore[index]
    never = get(api, posted("never", slower=1, target=0.9), "summary", baseline=slow.job_id)
    assert (never["time_to_target_s"], never["convergence_speed_up"]) == (None, None)


def test_whose_the_parts_are_is_said_where_they_do_not_fit_into_an_iteration() -> None:
    straggler = Progress(
        iteration_ns=328.0, compute_ns=271.0, exposed_ns=170.0, exposed_rank=0, compute_rank=1
    )
    assert straggler.apart
    assert not replace(straggler, compute_rank=0).apart, "they overlap on one worker"
    assert not replace(straggler, exposed_ns=50.0).apart
    assert not Progress().apart
