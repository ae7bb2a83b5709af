"""A speed-up is shown with what a reader must know to trust it, also in a row of the list."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from backend.cli.main import app
from backend.schemas.jobs import JobSummary
from tests.backend.job_specs import submit
from tests.backend.posted_run import Posted, end_attempt, record_steps, start_attempt

OTHER_JOB = "another job ran on the machine during this job"


def start(api: TestClient, directory: Path, name: str, **fields: Any) -> Posted:
    """A job that runs, with telemetry."""
    run = start_attempt(api, submit(api, name, **fields)["id"], directory / name)
    record_steps(run)
    run.post_all(api)
    return run


def ran(api: TestClient, directory: Path, name: str, **fields: Any) -> Posted:
    run = start(api, directory, name, **fields)
    end_attempt(api, run)
    return run


@pytest.fixture(scope="module")
def rows(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of the list, by name: jobs with one baseline, of which two ran at the same time."""
    directory = tmp_path_factory.mktemp("jobs")
    baseline = ran(api, directory, "baseline").job_id
    ran(api, directory, "alone", baseline=baseline)
    outer = start(api, directory, "outer", baseline=baseline)
    ran(api, directory, "inner", baseline=baseline)
    end_attempt(api, outer)
    ran(api, directory, "afterwards", baseline=baseline)
    ran(api, directory, "wider", baseline=baseline, cluster={"workers": 2, "threads": 2})
    return {row["name"]: row for row in api.get("/api/v1/jobs").json()["items"]}


@pytest.mark.parametrize(
    ("name", "value", "caveat"),
    [("baseline", None, None), ("alone", 1, None), ("outer", 1, OTHER_JOB), ("inner", 1, OTHER_JOB),
     ("afterwards", 1, None),
     ("wider", None, "threads per worker: 2 here, 1 in the baseline; they must be equal: submit one of them with "
      "the other's cluster.threads")],
)  # fmt: skip
def test_a_row_says_what_its_speed_up_is_worth(
    api: TestClient, rows: dict[str, dict[str, Any]], name: str, value: float | None, caveat: str | None
) -> None:
    row = rows[name]
    assert (row["speed_up"], row["speed_up_caveat"]) == (value, caveat)
    if name != "baseline":
        assert api.get(f"/api/v1/jobs/{row['id']}/summary").json()["speed_up"]["why_not"] == caveat


def test_the_terminal_marks_it_and_says_why_below(
    rows: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answering:
        """A client of a server that has these jobs."""

        def __init__(self, url: str | None) -> None: ...

        def __enter__(self) -> Answering:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
        ) -> None: ...

        def jobs(self, **query: Any) -> list[JobSummary]:
            return [JobSummary(**row) for row in rows.values()]

    monkeypatch.setattr("backend.cli.jobs.Client", Answering)
    printed = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    marked = {name for name in rows for line in printed if f"  {name} " in line and "1.00x*" in line}
    assert marked == {"outer", "inner"}
    assert printed[-2:] == [f"* inner: {OTHER_JOB}", f"* outer: {OTHER_JOB}"]
