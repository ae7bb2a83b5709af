"""Records as Parquet files, read by pandas: the same rows, sums and names as the API's own answers."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from backend.services import records
from backend.services.parquet import archive
from backend.services.racing import Racing
from backend.services.record_tables import TABLES
from engine.telemetry.events import Kind
from tests.backend.job_specs import submit
from tests.backend.raced_jobs import run as run_race
from tests.backend.raced_jobs import submit as submit_race
from tests.backend.recorded_run import LAYERS, Run, record_run

STEPS = 12


@pytest.fixture(scope="module")
def run(api: TestClient) -> Run:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    return record_run(database, "p3", priority=True, slices=4, steps=STEPS)


def files(api: TestClient, path: str, **query: Any) -> dict[str, io.BytesIO]:
    answer = api.get(f"/api/v1{path}/tables", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        assert packed.testzip() is None
        return {name.removesuffix(".parquet"): io.BytesIO(packed.read(name)) for name in packed.namelist()}


def frames(api: TestClient, path: str, **query: Any) -> dict[str, pd.DataFrame]:
    return {name: pd.read_parquet(file) for name, file in files(api, path, **query).items()}


@pytest.mark.parametrize("at_once", [records.ROWS_AT_ONCE, 90])
def test_the_tables_hold_what_the_api_answers(
    api: TestClient, run: Run, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "ROWS_AT_ONCE", at_once)
    found = frames(api, f"/jobs/{run.job_id}")
    assert list(found) == list(TABLES)
    for name, frame in found.items():
        assert list(frame.columns) == [column.name for column in TABLES[name]]
        assert set(frame["job"]) == {run.job_id}

    events = found["events"]
    assert len(events) == len(run.events)
    assert events["start_ns"].is_monotonic_increasing
    assert int((events["end_ns"] - events["start_ns"]).sum()) == sum(
        e["end"] - e["start"] for e in run.events
    )
    sends = events[events["kind"] == "send"]
    assert int(sends["bytes"].sum()) == sum(e["bytes"] for e in run.events if e["kind"] == Kind.SEND)
    assert set(sends["layer"]) == set(LAYERS)
    assert set(sends[sends["party"] == "worker 0"]["peer"]) == {"server 0"}
    assert events[events["kind"] == "forward"]["peer"].isna().all()

    totals = found["layers"].groupby("kind", observed=True)[["count", "busy_ns", "bytes"]].sum()
    assert totals.loc["send", "bytes"] == sends["bytes"].sum()
    assert totals.loc["forward", "count"] == (events["kind"] == "forward").sum()

    steps = found["steps"]
    assert sorted(zip(steps["step"], steps["worker"], strict=True)) == [
        (s, w) for s in range(STEPS) for w in (0, 1)
    ]
    exposed = {key: round(part["exposed"] * 1e6) for key, part in run.parts.items()}
    assert {
        (w, s): ns for s, w, ns in zip(steps["step"], steps["worker"], steps["exposed_ns"], strict=True)
    } == exposed

    series = api.get(f"/api/v1/jobs/{run.job_id}/metrics", params={"name": "test_accuracy"}).json()["series"]
    accuracy = found["metrics"][found["metrics"]["name"] == "test_accuracy"]
    assert accuracy["value"].tolist() == [point["value"] for point in series["test_accuracy"]]

    links = found["links"]
    for link in api.get(f"/api/v1/jobs/{run.job_id}/links", params={"bins": 10_000}).json()["links"]:
        own = links[(links["party"] == link["party_name"]) & (links["direction"] == link["direction"])]
        by_layer = own[own["layer"].notna()].groupby("layer", observed=True)["bytes"].sum().to_dict()
        assert by_layer == {layer["layer"]: sum(layer["bytes"]) for layer in link["layers"]}
        counted = own[own["all_layers"]]
        np.testing.assert_allclose(counted["utilization"], counted["bytes"] * 8 / (0.01 * link["rate_bps"]))


def test_columns_say_what_they_mean(api: TestClient, run: Run) -> None:
    for name, file in files(api, f"/jobs/{run.job_id}", tables="steps,links").items():
        for field in pq.read_schema(file):
            said = {
                key.decode(): value.decode()
                for key, value in field.metadata.items()
                if key != b"PARQUET:field_id"
            }
            (column,) = [one for one in TABLES[name] if one.name == field.name]
            assert said == {"unit": column.unit, "meaning": column.meaning}


def test_a_range_of_steps_and_some_tables(api: TestClient, run: Run) -> None:
    found = frames(api, f"/jobs/{run.job_id}", tables="events,steps,links", step_from=4, step_to=5)
    assert set(found) == {"events", "steps", "links"}
    assert set(found["events"]["step"]) == set(found["steps"]["step"]) == {4, 5}
    assert found["links"]["start_ns"].min() >= run.starts[0, 4] - 10_000_000
    assert found["links"]["start_ns"].max() <= run.starts[1, 6]
    for query, said in (
        ({"tables": "nothing"}, "nothing"),
        ({"step_from": 5, "step_to": 4}, "step_to = 4: comes before step_from = 5"),
    ):
        answer = api.get(f"/api/v1/jobs/{run.job_id}/tables", params=query)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]


def test_a_job_that_waits_has_tables_without_rows(api: TestClient) -> None:
    found = frames(api, f"/jobs/{submit(api, 'waits')['id']}")
    assert found.pop("jobs")["state"].tolist() == ["queued"]
    assert {len(frame) for frame in found.values()} == {0}
    assert api.get("/api/v1/jobs/nobody/tables").status_code == 404
    assert api.get("/api/v1/races/nobody/tables").status_code == 404


def test_a_race_has_the_rows_of_all_its_jobs(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit_race(api, "p3", "parameter-server")
    names = run_race(api, racing, race, tmp_path)
    found = frames(api, f"/races/{race['id']}", tables="jobs,steps")
    jobs = found["jobs"]
    assert len(jobs) == len(names)
    assert list(zip(jobs["round"], jobs["member"], strict=True)) == [(r, m) for r in range(3) for m in (0, 1)]
    steps = found["steps"].merge(jobs[["job", "strategy"]], on="job").groupby("strategy", observed=True)
    speed = steps.apply(lambda rows: (rows["end_ns"] - rows["start_ns"]).median())
    assert speed["parameter-server"] > speed["p3"]  # as they were posted


def test_an_archive_is_written_as_its_pages_are_read() -> None:
    read: list[int] = []

    def pages() -> Any:
        for number in range(3):
            read.append(number)
            random = np.random.default_rng(number).integers(0, 2**60, 5_000)
            columns = {column.name: np.zeros(5_000, int) for column in TABLES["steps"]}
            yield "a job", {**columns, "start_ns": random, "loss": [None] * 5_000}

    pieces = archive({"steps": pages()})
    first = next(pieces)
    assert read == [0]
    assert len(first) > 5_000  # rows, not only a header: what is read is not gathered
    rest = list(pieces)
    with zipfile.ZipFile(io.BytesIO(b"".join([first, *rest]))) as packed:
        table = pq.read_table(io.BytesIO(packed.read("steps.parquet")))
    assert table.num_rows == 15_000
    assert table["loss"].null_count == 15_000


def test_the_guide_lists_every_column() -> None:
    rows = ["| table | column | unit | what it is |", "|---|---|---|---|"]
    for name, columns in TABLES.items():
        for column in columns:
            rows.append(f"| `{name}` | `{column.name}` | {column.unit} | {column.meaning} |")
    guide = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
    said = guide.partition("<!-- tables:")[2].partition("-->\n")[2].partition("<!-- /tables -->")[0]
    assert said.strip() == "\n".join(rows), "the table should read:\n" + "\n".join(rows)
