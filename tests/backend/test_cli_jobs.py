"""The terminal's commands, through a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from backend.cli.main import app
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer


@pytest.fixture(autouse=True)
def _server(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", live.url)


def trainyard(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def succeeds(*arguments: str) -> str:
    found = trainyard(*arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec("from a terminal")))
    return path


def test_a_job_from_its_submission_to_its_end(file: Path) -> None:
    job_id = succeeds("submit", str(file)).strip()
    assert job_id in succeeds("list", "--state", "queued")
    shown = succeeds("show", job_id)
    assert "from a terminal" in shown
    assert "slices of 50000" in shown
    assert "cancelled" in succeeds("cancel", job_id)
    assert job_id not in succeeds("list", "--state", "queued")
    assert json.loads(succeeds("show", job_id, "--json"))["state"] == "cancelled"
    assert succeeds("logs", job_id) == ""
    assert succeeds("logs", job_id, "--follow") == ""


def test_a_plan_is_shown_without_submitting(file: Path) -> None:
    before = succeeds("list", "--json")
    assert "p3:" in succeeds("plan", str(file))
    assert json.loads(succeeds("plan", str(file), "--json"))["strategy"] == "p3"
    assert succeeds("list", "--json") == before


def test_jobs_are_compared(file: Path) -> None:
    first = succeeds("submit", str(file)).strip()
    second = succeeds("submit", str(file), "--baseline", first).strip()
    table = succeeds("compare", first, second)
    assert "speed-up" in table
    assert "throughput: this job has none after the warm-up yet" in table


def test_a_rehearsal_is_called_one(file: Path, tmp_path: Path) -> None:
    rehearsal = tmp_path / "rehearsal.yaml"
    rehearsal.write_text(yaml.safe_dump(job_spec("rehearsal", fidelity="rehearse")))
    trained, rehearsed = (succeeds("submit", str(one)).strip() for one in (file, rehearsal))
    label = "rehearsed: compute of P4000 derived from FLOPs at 60 %"
    assert "mlp (rehearsed)" in succeeds("list", "--text", "rehearsal")
    assert label in succeeds("show", rehearsed)
    assert label in succeeds("compare", trained, rehearsed)
    assert "rehearsed" not in succeeds("compare", trained, trained)


def test_catalogues_are_listed() -> None:
    listed = succeeds("strategies")
    assert "parameter-server" in listed
    assert "Loses when" in listed
    assert json.loads(succeeds("schema"))["title"] == "JobSpec"
    assert json.loads(succeeds("openapi"))["info"]["title"] == "Trainyard"


def test_directories_are_seen_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\ndef build():\n    return nn.Flatten()\n")
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec(model={"entrypoint": "mine:built", "directory": "."})))
    refused = trainyard("plan", str(path))
    assert refused.exit_code == 2
    assert "built" in refused.stderr


def test_bad_specifications_print_value_rule_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_spec(cluster={"workers": 0})))
    for command in ("submit", "plan"):
        refused = trainyard(command, str(path))
        assert refused.exit_code == 2
        assert refused.stderr.splitlines() == [
            "error: cluster.workers = 0",
            "  rule:   a job needs at least one worker",
            "  remedy: Use 1 or more",
        ]
        assert refused.stdout == ""


@pytest.mark.parametrize("text", ["name: [", "- a list", None])
def test_files_that_hold_no_job(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text)
    refused = trainyard("submit", str(path))
    assert refused.exit_code == 2
    assert str(path) in refused.stderr
    assert "remedy" in refused.stderr


@pytest.mark.parametrize("command", ["show", "logs", "cancel"])
def test_jobs_that_are_not_there(command: str) -> None:
    refused = trainyard(command, "nobody")
    assert refused.exit_code == 2
    assert "no such job" in refused.stderr


def test_a_server_that_is_not_there() -> None:
    refused = trainyard("list", "--url", "http://127.0.0.1:1")
    assert refused.exit_code == 1
    assert "trainyard serve" in refused.stderr
