"""Jobs and races for TensorBoard and MLflow, read back by these programs themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from backend.client import Client
from backend.exports import mlflow, series, tensorboard
from backend.services.racing import Racing
from backend.services.series import MAX_POINTS
from engine.errors import UserError
from tests.backend.job_specs import submit
from tests.backend.posted_run import end_attempt, record_steps, start_attempt
from tests.backend.raced_jobs import run as run_race
from tests.backend.raced_jobs import submit as submit_race


@pytest.fixture(scope="module")
def client(api: TestClient) -> Iterator[Client]:
    """The terminal's client, of the application in this process."""
    found = Client("http://127.0.0.1")
    found._http.close()
    found._http = TestClient(api.app, base_url="http://127.0.0.1/api/v1")
    return found


@pytest.fixture(scope="module")
def job_id(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that has ended."""
    made = submit(api, "digits")["id"]
    posted = start_attempt(api, made, tmp_path_factory.mktemp("attempt"))
    record_steps(posted)
    posted.post_all(api)
    end_attempt(api, posted)
    return str(made)


def measured(client: Client, job_id: str) -> dict[str, list[tuple[int, float]]]:
    """(step, value) by series, as the API has them."""
    found = client.metrics(job_id).series
    return {
        name: [(point.step, point.value) for point in points if point.value is not None]
        for name, points in found.items()
    }


@pytest.mark.parametrize("at_once", [series.STEPS_AT_ONCE, 7])
def test_tensorboard_reads_every_point(
    client: Client, job_id: str, tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "STEPS_AT_ONCE", at_once)
    tensorboard.write(client, job_id, tmp_path / "run")
    found = EventAccumulator(str(tmp_path / "run"), size_guidance={"scalars": 0})
    found.Reload()
    for name, points in measured(client, job_id).items():
        read = found.Scalars(name)
        assert [one.step for one in read] == [step for step, _ in points]
        assert [one.value for one in read] == pytest.approx([value for _, value in points], rel=1e-6)
    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    given = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    assert given["training.global_batch"].number_value == 32
    assert given["strategy.name"].string_value == "p3"


def test_a_job_that_runs_is_followed(
    api: TestClient, client: Client, tmp_path: Path, monkeypatch: Any
) -> None:
    made = submit(api, "runs")["id"]
    posted = start_attempt(api, made, tmp_path / "attempt")
    record_steps(posted)
    looks: list[float] = []

    def then(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            posted.post_all(api)
            end_attempt(api, posted)

    monkeypatch.setattr(tensorboard.time, "sleep", then)
    points = tensorboard.write(client, made, tmp_path / "run", follow=True)
    assert len(looks) == 2
    assert points >= sum(map(len, measured(client, made).values())) > 0


def test_utilization_is_that_of_the_bins_within_each_step(client: Client, job_id: str) -> None:
    links = client.links(job_id)
    ends = {point.step: point.time_ns for point in client.metrics(job_id, "loss").series["loss"]}
    found = series.utilization_by_step(links, ends)
    for link in links.links:
        if link.utilization is not None and any(link.utilization):
            assert {
                point.step for point in found[f"{link.party_name} {link.interface} {link.direction}"]
            } <= set(ends)
    assert series.STEPS_AT_ONCE < MAX_POINTS  # or an answer would be thinned


@pytest.mark.soak
def test_mlflow_reads_a_race_and_every_point_once(
    api: TestClient, client: Client, racing: Racing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow takes seconds to load and to make its tables."""
    from mlflow import MlflowClient  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)  # where a store without a server puts artifacts
    race = submit_race(api, "p3", "parameter-server")
    names = run_race(api, racing, race, tmp_path / "race")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    store = mlflow.Store(uri, "races")
    run, new = store.add_race(client, race["id"], lambda _: None)
    assert new == len(names)
    assert store.add_race(client, race["id"], lambda _: None) == (run, 0)
    reader = MlflowClient(tracking_uri=uri)
    experiment = reader.get_experiment_by_name("races").experiment_id
    inside = reader.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run}'")
    assert sorted(one.info.run_name for one in inside) == sorted(names)
    assert [one.path for one in reader.list_artifacts(run)] == ["report.html"]
    for one in inside[:2]:
        job_id = one.data.tags["trainyard.job"]
        assert one.info.status == "FINISHED"
        assert one.data.params["training.global_batch"] == "32"
        assert store.add_job(client, job_id, on_progress=lambda _: None) == (one.info.run_id, False)
        for name, points in measured(client, job_id).items():
            read = reader.get_metric_history(one.info.run_id, name)
            assert {point.step: point.value for point in read} == pytest.approx(dict(points))
            assert len(read) == len(points)
    with pytest.raises(UserError, match="the job is queued"):
        store.add_job(client, submit(api, "waits")["id"])
    with pytest.raises(UserError, match="MLflow refused"):
        mlflow.Store("nonsense://here", "x")


def test_a_folder_that_cannot_be_written_is_refused(client: Client, job_id: str) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        tensorboard.write(client, job_id, Path("/proc/nowhere"))
