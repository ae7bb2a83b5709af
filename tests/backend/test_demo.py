"""The demo's jobs: templates that a person may submit, and runs whose plans can be made."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from backend.cli.demo_jobs import FOLDER, RACE, RUNS, Run
from backend.cli.demo_report import clock
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import load_file, to_plain
from engine.strategies import build_plan


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_templates_are_complete_jobs(path) -> None:
    assert load_file(JobSpec, path).name == path.stem


def test_runs_name_templates_and_earlier_baselines() -> None:
    before: set[tuple[str, str]] = set()
    for run in RUNS:
        assert (FOLDER / f"{run.template}.yaml").is_file()
        assert run.baseline is None or (run.template, run.baseline) in before
        before.add((run.template, run.strategy))
    assert sum(run.template == RACE for run in RUNS) == 2


@pytest.fixture(scope="module")
def descriptions() -> dict[str, ModelDescription]:
    """Of each template's model, made as the service makes them."""
    found = {}
    for path in FOLDER.glob("*.yaml"):
        job = load_file(JobSpec, path)
        request = {"model": to_plain(job.model), "data": to_plain(job.data), "precision": "float32"}
        ran = subprocess.run(
            [sys.executable, "-m", "engine.models.describe"],
            input=json.dumps(request), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found[path.stem] = ModelDescription.from_dict(json.loads(ran.stdout))
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_runs_have_plans(run: Run, descriptions: dict[str, ModelDescription]) -> None:
    job = run.specification()
    assert job.cluster.workers == run.workers
    assert build_plan(job, descriptions[run.template]).strategy == run.strategy


def test_runs_of_a_template_keep_its_batch_so_that_they_compare() -> None:
    for template in {run.template for run in RUNS}:
        assert len({run.specification().training for run in RUNS if run.template == template}) == 1


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 60, 125)] == ["0:00", "0:59", "1:00", "2:05"]
