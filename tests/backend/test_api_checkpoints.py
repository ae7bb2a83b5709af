"""A job's checkpoints as the API lists them, and its model as it answers it."""

from __future__ import annotations

import io
import json
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

from backend.executors.local_files import LocalFiles
from backend.scheduler.started_with import directories, start_of
from backend.services.checkpoints import PATIENCE_S, PIECE_BYTES, Pieces
from backend.services.errors import Conflict
from engine import launch as launches
from engine.checkpoint.start import Start
from engine.launch import Launch, write_json
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.runtime.cuts import WorkerCuts
from engine.runtime.evaluation import write_state
from engine.runtime.going_on import Held
from engine.runtime.meeting import Meeting
from engine.runtime.trainer import Done
from tests.backend.job_specs import job_spec, submit
from tests.backend.posted_run import Posted, end_attempt, start_attempt
from tests.engine.test_export import Nowhere
from tests.jobs import describe, plan_of


def begun(api: TestClient, folder: Path) -> tuple[Posted, Launch]:
    """A job that runs, of which each step is a checkpoint, and the files of its attempt."""
    made = submit(
        api,
        "Ring, 1",
        strategy={"name": "single"},
        cluster={"workers": 1},
        checkpoint={"every_steps": 1, "keep": 2},
    )
    spec = from_plain(JobSpec, made["spec"])
    launch = launches.prepare(
        spec, plan_of(spec), describe(spec), folder / "1", checkpoints=folder / launches.CHECKPOINTS
    )
    launch.write()
    return start_attempt(api, made["id"], launch.directory), launch


def test_a_job_says_which_checkpoints_it_has_and_answers_its_model(api: TestClient, tmp_path: Path) -> None:
    posted, launch = begun(api, tmp_path)
    path = f"/api/v1/jobs/{posted.job_id}"
    assert api.get(f"{path}/checkpoints").json() == {"items": [], "end": None}
    nothing = api.get(f"{path}/export")
    assert nothing.status_code == 409
    assert "there is no model of it yet" in nothing.json()["detail"]
    model = nn.Linear(2, 3)
    meeting = Meeting(Nowhere(), rank=0, workers=1, shards=(), deadline_s=1)
    cuts = WorkerCuts(launch, 0, model, Held(), torch.device("cpu"), 9, meeting)
    for step in (1, 2, 3):
        cuts.take(Done(steps=step))
    cuts.close()
    kept = api.get(f"{path}/checkpoints").json()
    assert [(one["step"], one["attempt"]) for one in kept["items"]] == [(3, 1), (2, 1)]
    place = launch.cuts().place(3)
    assert kept["items"][0]["bytes"] == sum(p.stat().st_size for p in place.glob("*.safetensors"))
    answer = api.get(f"{path}/export", params={"step": 2})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Trainyard-Step"] == "2"
    assert 'filename="ring-1-step-2-model.safetensors"' in answer.headers["Content-Disposition"]
    size = int.from_bytes(answer.content[:8], "little")
    header = json.loads(answer.content[8 : 8 + size])
    assert header.pop("__metadata__").items() >= {
        "job": posted.job_id, "job_name": "Ring, 1", "attempt": "1", "step": "2", "of": "checkpoint",
    }.items()  # fmt: skip
    assert {name: said["shape"] for name, said in header.items()} == {"weight": [3, 2], "bias": [3]}
    for step in (1, 7):
        refused = api.get(f"{path}/export", params={"step": step})
        assert refused.status_code == 422
        assert "There are: 3, 2" in refused.json()["detail"]


def test_without_a_step_it_is_how_the_job_has_ended(api: TestClient, tmp_path: Path) -> None:
    posted, launch = begun(api, tmp_path)
    write_state(nn.Linear(2, 3).state_dict(), launch.result / "model.pt")
    write_json(launch.summary(0), {"steps": 20})
    end_attempt(api, posted)
    path = f"/api/v1/jobs/{posted.job_id}"
    assert api.get(f"{path}/checkpoints").json() == {"items": [], "end": {"step": 20, "attempt": 1}}
    away = launch.directory.rename(tmp_path / "elsewhere")
    unseen = api.get(f"{path}/export")
    assert unseen.status_code == 409
    assert f"does not see {launch.directory}, where attempt 1 has its files" in unseen.json()["detail"]
    away.rename(launch.directory)
    launch.summary(0).rename(tmp_path / "summary")
    assert "no longer in" in api.get(f"{path}/export").json()["detail"]
    (tmp_path / "summary").rename(launch.summary(0))
    (launch.result / "model.pt").write_bytes(b"no model")
    refused = api.get(f"{path}/export")  # by the process that reads it
    assert refused.status_code == 422
    assert "what the job has ended with cannot be read" in refused.json()["detail"]


def test_a_job_may_begin_with_a_checkpoint_that_another_has(api: TestClient, tmp_path: Path) -> None:
    """What does not fit is refused where it is submitted; what the scheduler starts finds the other one's files."""
    posted, launch = begun(api, tmp_path)

    def refused(job: str = posted.job_id, **more: Any) -> str:
        asked = {"job": job} if "step" not in more else {"job": job, "step": more.pop("step")}
        body = job_spec(checkpoint={"start": asked}, **more)
        answer = api.post("/api/v1/jobs", json=body)
        assert answer.status_code == 422, answer.text
        return str(answer.json()["detail"])

    assert "no such job" in refused("nobody")
    assert f"Give the whole id: {posted.job_id}" in refused(posted.job_id[:13])
    assert "has no checkpoint that this server sees" in refused()
    meeting = Meeting(Nowhere(), rank=0, workers=1, shards=(), deadline_s=1)
    cuts = WorkerCuts(launch, 0, nn.Linear(2, 3), Held(), torch.device("cpu"), 9, meeting)
    cuts.take(Done(steps=3))
    cuts.close()
    assert "There are: 3" in refused(step=2)
    assert "optimizer is sgd" in refused(optimizer={"name": "adam", "learning_rate": 0.1})
    assert "was made after 3 steps" in refused(training={"steps": 3, "global_batch": 32})
    assert "Name a job with the same model" in refused(model={"name": "cnn"})
    made = submit(api, "on", strategy={"name": "p3"}, checkpoint={"start": {"job": posted.job_id}})
    assert made["spec"]["checkpoint"]["start"] == {"job": posted.job_id, "step": None}
    with api.app.state.context.database.read() as session:  # type: ignore[attr-defined]
        attempts = directories(session, posted.job_id)
    asked = from_plain(JobSpec, made["spec"]).checkpoint.start
    assert asked is not None
    start = Start(job=posted.job_id, directory=launch.directory, step=None)
    assert start_of(asked, [str(tmp_path / "2"), *attempts], LocalFiles) == start
    assert start_of(asked, [], LocalFiles) == replace(start, directory=None)


def test_who_takes_nothing_loses_the_place_to_who_waits() -> None:
    turn, told = ExitStack(), []
    turn.callback(lambda: told.append("free"))
    program = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    pieces = Pieces(program, io.BytesIO(), turn)
    pieces.end_if_slow(time.monotonic() + 2 * PATIENCE_S)  # nobody has been given anything yet
    assert len(next(pieces)) == PIECE_BYTES
    pieces.end_if_slow(time.monotonic() + PATIENCE_S / 2)
    assert len(next(pieces)) == PIECE_BYTES
    assert told == []
    pieces.end_if_slow(time.monotonic() + 2 * PATIENCE_S)
    assert told == ["free"]
    assert program.poll() is not None
    with pytest.raises(Conflict, match="took nothing of it"):
        next(pieces)


def test_a_file_of_a_name_that_is_none_of_ours_is_no_checkpoint(api: TestClient, tmp_path: Path) -> None:
    posted, _ = begun(api, tmp_path)
    said = {"format": 1, "step": 4, "parts": {"worker-0": {"bytes": 3, "crc32": 0}}}
    for name, content in {
        "step-0000000004": {**said, "step": 5},
        "step-4": said,
        "step-0000000006": {**said, "step": 6, "parts": [1]},
        "step-0000000007": {**said, "step": 7, "parts": {"worker-0": {"bytes": "many"}}},
    }.items():
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "manifest.json").write_text(json.dumps(content))
    (tmp_path / "checkpoints" / "step-0000000008").mkdir()
    (tmp_path / "checkpoints" / "step-0000000008" / "manifest.json").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(json.dumps({**said, "step": 8}))
    assert api.get(f"/api/v1/jobs/{posted.job_id}/checkpoints").json()["items"] == []


def test_a_job_that_runs_and_has_checkpoints_makes_room(api: TestClient, tmp_path: Path) -> None:
    without = submit(api, "none")["id"]
    queued = api.post(f"/api/v1/jobs/{without}/preempt", json={})
    assert queued.status_code == 409
    assert "only a job that runs makes room" in queued.json()["detail"]
    start_attempt(api, without, tmp_path / "other")
    refused = api.post(f"/api/v1/jobs/{without}/preempt", json={})
    assert refused.status_code == 409
    assert "it would begin at step 0 again" in refused.json()["detail"]
    posted, _ = begun(api, tmp_path)
    revisions = set()
    for _ in range(2):
        answer = api.post(f"/api/v1/jobs/{posted.job_id}/preempt", json={})
        assert answer.status_code == 200, answer.text
        asked = answer.json()
        assert (asked["state"], asked["reason"]) == ("preempting", "preempted")
        assert [one["state"] for one in asked["attempts"]] == ["preempting"]
        revisions.add(asked["revision"])
    assert len(revisions) == 1
    assert api.get("/api/v1/jobs", params={"state": "preempting", "text": "Ring"}).json()["items"]
    cancelled = api.post(f"/api/v1/jobs/{posted.job_id}/cancel", json={}).json()
    assert cancelled["state"] == "stopping_cancelled"
