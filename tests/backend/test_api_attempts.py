"""Whatever is recorded of an earlier attempt stays to be seen: by default the latest one is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db.models import Attempt
from backend.lifecycle import Event, Reason
from backend.scheduler import record
from engine.telemetry import absence
from engine.telemetry.recorder import Recorder
from engine.telemetry.resumption import RESUMED
from tests.backend.figures_drawn import column
from tests.backend.job_specs import submit
from tests.backend.posted_run import (
    SAMPLES,
    STEP_MS,
    STEPS,
    Posted,
    end_attempt,
    fail_attempt,
    record_steps,
    start_attempt,
)

SLOWER = 3
TARGET = {"steps": STEPS, "global_batch": 32, "target_accuracy": 0.7}


def compared(api: TestClient, job_id: str, by: str) -> Any:
    answer = api.get("/api/v1/compare", params={"jobs": job_id, "what": "loss", "by": by})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    """A job that failed and succeeded, three times as slowly; the second attempt."""
    job_id = submit(api, "unlucky")["id"]
    first = start_attempt(api, job_id, tmp_path_factory.mktemp("first"))
    record_steps(first)
    first.post_all(api)
    fail_attempt(api, first)
    second = start_attempt(api, job_id, tmp_path_factory.mktemp("second"))
    record_steps(second, slower=SLOWER)
    second.post_all(api)
    end_attempt(api, second)
    return second


def get(api: TestClient, run: Posted, path: str, **query: object) -> Any:
    answer = api.get(f"/api/v1/jobs/{run.job_id}/{path}", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(("query", "factor"), [({}, SLOWER), ({"attempt": 1}, 1), ({"attempt": 2}, SLOWER)])
def test_every_view_is_of_the_attempt_asked_for(
    api: TestClient, run: Posted, query: dict[str, int], factor: int
) -> None:
    iteration_ms = max(STEP_MS) * factor
    assert get(api, run, "summary", **query)["iteration_ms"] == iteration_ms
    assert get(api, run, "summary", **query)["duration_s"] == pytest.approx(STEPS * iteration_ms / 1e3)
    series = get(api, run, "metrics", **query)["series"]
    assert {point["value"] for point in series["iteration_ms"]} == {iteration_ms}
    names = {row["name"] for row in get(api, run, "metrics/names", **query)["items"]}
    assert names == set(series)
    step = get(api, run, "figures/timeline", step=3, **query)
    assert step["layout"]["meta"]["to_ns"] - step["layout"]["meta"]["from_ns"] >= iteration_ms * 1e6
    slices = [entry for entry in get(api, run, "trace", **query)["traceEvents"] if entry["ph"] == "X"]
    assert max(entry["dur"] for entry in slices) == iteration_ms * 1e3 / 2  # a forward, in us


def test_a_figure_kept_for_one_attempt_is_not_the_answer_for_another(api: TestClient, run: Posted) -> None:
    path = f"/api/v1/jobs/{run.job_id}/figures/step-time"
    latest, first = (api.get(path, params=query) for query in ({}, {"attempt": 1}))
    assert latest.headers["etag"] != first.headers["etag"]
    again = api.get(path, params={"attempt": 1}, headers={"If-None-Match": latest.headers["etag"]})
    assert again.json() == first.json() != latest.json()


@pytest.mark.parametrize(
    "path",
    [
        "summary",
        "metrics",
        "metrics/names",
        "trace",
        "events",
        "logs",
        "figures/loss",
        "why?worker=0&step=1&layer=0",
    ],
)
def test_an_attempt_that_there_is_not(api: TestClient, run: Posted, path: str) -> None:
    answer = api.get(f"/api/v1/jobs/{run.job_id}/{path}{'&' if '?' in path else '?'}attempt=3")
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert (error["field"], error["value"]) == ("attempt", 3)
    assert "has 2" in error["rule"]


def test_an_attempt_says_which_workers_it_went_on_without(
    api: TestClient, run: Posted, tmp_path: Path
) -> None:
    lost = start_attempt(api, submit(api, "went on")["id"], tmp_path)
    record_steps(lost)
    lost.post_all(api)
    loss = "worker 1 was lost after 7 steps: killed by SIGKILL"
    end_attempt(api, lost, f"The job was finished by the processes that were left: {loss}")
    (attempt,) = api.get(f"/api/v1/jobs/{lost.job_id}").json()["attempts"]
    (found,) = attempt["lost"]
    assert (found["worker"], found["steps"]) == ("worker 1", 7)
    assert found["text"].lower().startswith(f"{loss}. the others trained on".lower())
    assert "about one of 2 samples of a step" in found["text"]
    assert [one["lost"] for one in api.get(f"/api/v1/jobs/{run.job_id}").json()["attempts"]] == [[], []]


def test_an_attempt_says_from_which_step_it_goes_on_and_its_loss_has_each_step_once(
    api: TestClient, run: Posted, tmp_path: Path
) -> None:
    """The fourth attempt goes on from a checkpoint that the first has made: that of the second was damaged, and the
    third was over before its first step. What it took to get there counts."""
    job_id = submit(api, "goes on", training=TARGET)["id"]
    attempts: list[tuple[int | None, dict[int, float]]] = [
        (0, {8: 0.5, 12: 0.1}), (12, {}), (None, {}), (8, {16: 0.75}),
    ]  # fmt: skip
    for number, (first, accuracy) in enumerate(attempts, start=1):
        going = start_attempt(api, job_id, tmp_path / str(number))
        if first is not None:
            record_steps(going, first=first, before=accuracy)
            going.post_all(api)
        if number < len(attempts):
            fail_attempt(api, going)
    end_attempt(api, going)
    shown = api.get(f"/api/v1/jobs/{job_id}").json()["attempts"]
    assert [one["resumed_step"] for one in shown] == [None, 12, None, 8]
    earlier = api.get(f"/api/v1/jobs/{run.job_id}").json()["attempts"]
    assert [one["resumed_step"] for one in earlier] == [None, None]
    loss, _, measured = get(api, going, "figures/loss")["data"]
    assert list(column(loss["x"])) == list(range(STEPS))
    assert list(column(loss["y"])) == pytest.approx([1 / (1 + step) for step in range(STEPS)])
    assert list(column(measured["x"])) == [8, 16, STEPS - 1]
    assert list(column(measured["y"])) == [0.5, 0.75, 0.875]
    assert {point["step"] for point in get(api, going, "metrics")["series"]["loss"]} == set(range(8, STEPS))
    before, since = 8 * max(STEP_MS), (16 - 8) * STEP_MS[0]  # until all had made its steps; worker 0 measures
    assert get(api, going, "summary")["time_to_target_s"] == pytest.approx((before + since) / 1e3)
    (samples,), (sent,) = (compared(api, job_id, by)["data"] for by in ("samples", "bytes"))
    assert list(column(samples["x"])) == [2 * SAMPLES * (1 + step) for step in range(STEPS)]
    assert len(column(sent["x"])) == STEPS
    assert (np.diff(column(sent["x"])) > 0).all()


def test_what_another_job_took_until_the_checkpoint_that_this_one_begins_with_is_not_its_own(
    api: TestClient, tmp_path: Path
) -> None:
    begun = start_attempt(api, submit(api, "begins late", training=TARGET)["id"], tmp_path)
    record_steps(begun, first=12)
    begun.post_all(api)
    end_attempt(api, begun)
    assert get(api, begun, "summary")["time_to_target_s"] is None
    drawn = compared(api, begun.job_id, "samples")
    assert list(column(drawn["data"][0]["x"])) == [2 * SAMPLES * (1 + step) for step in range(STEPS - 12)]
    (said,) = [note["text"] for note in drawn["layout"]["annotations"] if "another job" in note["text"]]
    assert "samples trained on counts from its step 12 on" in said


def test_a_job_that_made_room_is_as_far_as_its_checkpoint_before_its_first_step(
    api: TestClient, tmp_path: Path
) -> None:
    job_id = submit(api, "made room")["id"]

    def shown() -> int | None:
        step: int | None = api.get(f"/api/v1/jobs/{job_id}").json()["step"]
        return step

    first = start_attempt(api, job_id, tmp_path / "1")
    record_steps(first)
    first.post_all(api)

    def preempted(session: Session) -> None:
        attempt = session.get_one(Attempt, first.attempt)
        for event in (Event.PREEMPT, Event.REQUEUED):
            record.advance(session, attempt.job, attempt, event, reason=Reason.PREEMPTED)

    api.app.state.context.database.writer.run(preempted)  # type: ignore[attr-defined]
    assert shown() == STEPS
    second = start_attempt(api, job_id, tmp_path / "2")
    assert shown() == STEPS, "the checkpoint is of its end"
    server = Recorder(0, "worker 0", lambda: 0, None, attempt=second.attempt, flush_s=3600)
    server.metric(RESUMED, 8, 8)
    server.close()
    second.batches += server.memory
    second.post_all(api)
    assert shown() == 8, "that was damaged, and it goes on from an earlier one"


def test_while_it_trains_an_attempt_says_which_workers_were_lost_and_which_joined_again(
    api: TestClient, tmp_path: Path
) -> None:
    going = start_attempt(api, submit(api, "goes on")["id"], tmp_path)
    server = Recorder(0, "worker 0", lambda: 0, None, attempt=going.attempt, flush_s=3600)
    server.metric(absence.lost(1), 0, 7)
    server.metric(absence.joined(1), 1, 9)
    server.metric(absence.lost(1), 1, 12)
    server.metric(absence.lost(0), 0, 5)
    server.metric(absence.joined(0), 1, 5)
    server.close()
    going.batches += server.memory
    going.post_all(api)
    (attempt,) = api.get(f"/api/v1/jobs/{going.job_id}").json()["attempts"]
    whole, first, second = attempt["lost"]
    assert whole["text"].endswith("It joined again at its step 5, so that none of its steps is missing.")
    assert (first["steps"], second["steps"]) == (7, 12)
    assert first["text"] == (
        "Worker 1 was lost after 7 steps. It joined again at its step 9: 2 of its steps were never trained on."
    )
    assert second["text"].startswith("Worker 1 was lost after 12 steps. The others train on without it,")
    assert second["text"].endswith("about one of 2 samples of a step is not trained on.")


def test_a_worker_that_joins_again_does_not_take_back_what_the_others_did(
    api: TestClient, tmp_path: Path
) -> None:
    going = start_attempt(api, submit(api, "goes on")["id"], tmp_path)
    party = [
        Recorder(rank, f"worker {rank}", lambda: 0, None, attempt=going.attempt, flush_s=3600)
        for rank in (0, 1)
    ]
    for rank, steps in enumerate((5, 3)):
        for step in range(steps):
            party[rank].step(step, start=step * 10, end=step * 10 + 9, samples=1, loss=1.0)
    shown = []
    for said in (None, absence.lost(1), absence.joined(1)):
        if said is not None:
            party[0].metric(said, int(said == absence.joined(1)), 3)
        for one in party:
            one.flush()
            for body in one.memory[:]:
                assert going.post(api, body).status_code == 200
        shown.append(api.get(f"/api/v1/jobs/{going.job_id}").json()["step"])
    assert shown == [3, 5, 5]
