"""A person's own model is measured over the API, and what comes of it is rehearsed."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.executors import scratch
from backend.scheduler import decide
from backend.scheduler.alone import Alone
from backend.scheduler.decide import Device
from backend.services import profiles
from backend.services.errors import Busy
from backend.services.inventory import Inventory
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.profile import read
from tests.backend.job_specs import job_spec, submit
from tests.backend.posted_run import end_attempt, start_attempt

pytestmark = pytest.mark.usefixtures("gang_lane")


def own(
    directory: Path, *, body: str = "return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"
) -> dict[str, Any]:
    (directory / "net.py").write_text(
        f"from torch import nn\nprint('said while it is imported')\ndef build():\n    {body}\n"
    )
    return {"entrypoint": "net:build", "directory": str(directory)}


def test_ones_own_model_is_measured_and_rehearsed_with_the_result(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "KEPT", 1)
    directory = tmp_path / "profiles"
    monkeypatch.setattr(context(api).profiles, "_directory", directory)
    directory.mkdir()
    write_old(directory / "nobodys.json", b"{}")
    spec = job_spec("mine", model=own(tmp_path), cluster={"workers": 2})
    answer = api.post("/api/v1/profiles", json=spec)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    profile = read(Path(found["path"]))
    assert (found["batch"], profile.batch) == (16, 16), "as many samples as one of two workers has"
    assert [layer["layer"] for layer in found["layers"]] == [time.layer for time in profile.layers] == ["1"]
    assert found["layers"][0]["forward_ms"] == pytest.approx(1e3 * 16 * profile.layers[0].forward_s)
    assert 0 < found["layers"][0]["backward_ms"] <= found["backward_ms"]
    rehearsed = {**spec, "fidelity": "rehearse", "rehearsal": {"profile": found["path"]}}
    planned = api.post("/api/v1/jobs", json=rehearsed)
    assert planned.status_code == 201, planned.text
    assert found["path"] in planned.json()["rehearsed"]
    # The newest one is kept, and older ones that a job or a race is rehearsed with.
    raced = directory / "raced.json"
    write_old(raced, Path(found["path"]).read_bytes())
    race = {"job": {**rehearsed, "rehearsal": {"profile": str(raced)}}, "members": [{"strategy": "p3"}]}
    assert api.post("/api/v1/races", json=race).status_code == 201
    assert sorted(directory.iterdir()) == sorted([Path(found["path"]), raced]), "nobody's is gone"
    for age, name in enumerate(("newest.json", "before.json", found["path"])):
        (directory / name).touch()
        os.utime(directory / name, ns=(9 - age, 9 - age))
    context(api).profiles._forget()
    assert {path.name for path in directory.iterdir()} == {
        Path(found["path"]).name,
        "raced.json",
        "newest.json",
    }


def write_old(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))


def test_what_is_wrong_with_a_model_is_said_with_its_file_and_line(api: TestClient, tmp_path: Path) -> None:
    answer = api.post("/api/v1/profiles", json=job_spec(model=own(tmp_path, body="return nn.Linear(64)")))
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "model.entrypoint"
    assert "net.py" in error["rule"]
    assert "line 4" in error["rule"]


def test_a_batch_that_the_data_do_not_have_is_said_at_the_jobs_field(api: TestClient) -> None:
    training = {"steps": 20, "global_batch": 100_000}
    for workers, samples in ((1, "100,000"), (4, "25,000")):
        answer = api.post("/api/v1/profiles", json=job_spec(cluster={"workers": workers}, training=training))
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert (error["field"], error["value"]) == ("training.global_batch", 100_000), "what the person wrote"
        assert f"a worker's pass has {samples} samples" in error["rule"]


def context(api: TestClient) -> Any:
    return api.app.state.context  # type: ignore[attr-defined]


def inventory_of(api: TestClient, folder: Path, *devices: Device) -> Inventory:
    """A machine's with these devices."""
    database = context(api).database
    inventory = decide.Inventory(devices=devices)
    return Inventory(database, inventory, Alone(database, folder, "here", inventory))


def test_it_is_measured_on_what_auto_means_for_the_job(api: TestClient, tmp_path: Path) -> None:
    gpus = tuple(Device(id=f"cuda:{i}", kind="cuda", name="A", model="A") for i in range(2))
    cpus = tuple(Device(id=f"cpu:{i}", kind="cpu", name="B", model="B") for i in range(3))
    inventory = inventory_of(api, tmp_path, *gpus, *cpus)
    rehearsed = {"fidelity": "rehearse", "rehearsal": {"device": "p4000", "efficiency": 0.6}}

    def on(device: str, workers: int, **fields: Any) -> str:
        spec = job_spec(cluster={"workers": workers, "device": device}, **fields)
        return inventory.computes_on(from_plain(JobSpec, spec))

    assert [on("auto", 2), on("auto", 2, **rehearsed), on("auto", 3)] == ["cuda", "cuda", "cpu"]
    assert [on("cpu", 1), on("cuda", 2)] == ["cpu", "cuda"]
    assert [on("auto", 32), on("cuda", 4)] == ["cuda", "cuda"], "too few for all: what one worker would get"
    inventory = inventory_of(api, tmp_path, *cpus)
    with pytest.raises(UserError, match="no CUDA device") as refused:
        on("cuda", 1)
    assert refused.value.field == "cluster.device"


def test_jobs_that_ran_meanwhile_are_named_and_nothing_temporary_stays(
    api: TestClient, tmp_path: Path
) -> None:
    ended = start_attempt(api, submit(api, "over before")["id"], tmp_path / "before")
    end_attempt(api, ended)
    running = start_attempt(api, submit(api, "running")["id"], tmp_path / "running")
    directory = context(api).profiles._directory
    temporary = scratch.make(directory)  # to learn its name
    scratch.remove(directory)
    spec = job_spec("mine", model=own(tmp_path), cluster={"workers": 1, "device": "cpu"})
    answer = api.post("/api/v1/profiles", json=spec)
    assert not temporary.exists()
    assert answer.status_code == 201, answer.text
    assert Path(answer.json()["path"]).parent == directory.resolve()
    assert (answer.json()["device"], answer.json()["beside"]) == ("cpu", ["running"])
    end_attempt(api, running)


def test_nothing_is_measured_beside_a_job_that_runs_alone(api: TestClient, tmp_path: Path) -> None:
    alone = job_spec("raced", cluster={"workers": 1, "alone": True})
    job = api.post("/api/v1/jobs", json=alone).json()
    running = start_attempt(api, job["id"], tmp_path / "running")
    answer = api.post("/api/v1/profiles", json=job_spec("mine", model=own(tmp_path)))
    end_attempt(api, running)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10"), answer.text
    assert "'raced' runs alone, as it asked" in answer.json()["detail"]
    assert "cancel it" in answer.json()["detail"]


def test_nothing_is_measured_on_a_gpu_that_somebody_holds(api: TestClient, tmp_path: Path) -> None:
    gpus = tuple(Device(id=f"cuda:{i}", kind="cuda", name="A", model="A") for i in range(2))
    inventory = inventory_of(api, tmp_path, *gpus)
    held = start_attempt(api, submit(api, "training")["id"], tmp_path / "held", devices={"cuda:0": "A"})
    measuring = profiles.Profiles(
        tmp_path, context(api).database, context(api).profiles._planner, inventory, lambda *_: nullcontext()
    )
    spec = from_plain(JobSpec, job_spec(cluster={"workers": 1, "device": "cuda"}))
    with pytest.raises(Busy, match="'training' holds cuda:0"):
        measuring.measure(spec)
    end_attempt(api, held)
    measuring.close()


def test_what_a_killed_server_left_goes_when_the_next_one_starts(api: TestClient, tmp_path: Path) -> None:
    left = scratch.make(tmp_path)
    (left / "spool").mkdir()
    known = context(api)
    profiles.Profiles(
        tmp_path, known.database, known.profiles._planner, known.inventory, lambda *_: nullcontext()
    ).close()
    assert not left.exists()


def test_a_folder_that_takes_nothing_is_said_before_anything_is_measured(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in its place")
    monkeypatch.setattr(profiles, "ask", None)
    monkeypatch.setattr(context(api).profiles, "_directory", tmp_path / "file")
    answer = api.post("/api/v1/profiles", json=job_spec())
    assert answer.status_code == 409, answer.text
    assert "profiles cannot be stored" in answer.json()["detail"]


def test_threads_that_no_process_has_are_refused(api: TestClient) -> None:
    answer = api.post("/api/v1/profiles", json=job_spec(cluster={"workers": 1, "threads": 10**6}))
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["cluster.threads"]
