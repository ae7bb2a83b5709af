"""The demo's jobs: runs of templates, whose plans can be made."""

from __future__ import annotations

from contextlib import closing

import pytest

from backend.cli.demo_jobs import RUNS, Run
from backend.cli.demo_report import clock
from backend.races.demo import RACE, race
from backend.races.field import cells, job
from backend.services.descriptions import Descriptions
from backend.templates import load, names
from engine.plan.description import ModelDescription
from engine.strategies import build_plan


def test_runs_name_templates_and_earlier_baselines() -> None:
    before: set[tuple[str, str]] = set()
    for run in RUNS:
        assert run.template in names()
        assert run.baseline is None or (run.template, run.baseline) in before
        before.add((run.template, run.strategy))


@pytest.fixture(scope="module")
def descriptions(
    warm_descriptions: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ModelDescription]:
    """Of each template's model, made by the service."""
    with closing(Descriptions(tmp_path_factory.mktemp("cache"))) as service:
        jobs = {name: load(name) for name in names()}
        return {name: service.describe(job.model, job.data, "float32") for name, job in jobs.items()}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_runs_have_plans(run: Run, descriptions: dict[str, ModelDescription]) -> None:
    job = run.specification()
    assert job.cluster.workers == run.workers
    assert build_plan(job, descriptions[run.template]).strategy == run.strategy


@pytest.mark.parametrize("lab", [False, True])
def test_everybody_in_the_race_has_a_plan(lab: bool, descriptions: dict[str, ModelDescription]) -> None:
    spec = race(lab=lab)
    raced = ["parameter-server", "p3", "p3+late-multiply", *(["ddp"] if lab else [])]
    assert [member.strategy for member in spec.members] == raced
    for cell in cells(spec):
        asked = job(spec, cell, 0)
        assert asked.rehearsed
        assert asked.network.rate
        assert asked.network.hosts == (asked.cluster.workers if lab else None)
        assert build_plan(asked, descriptions[RACE]).strategy == asked.strategy.name


def test_runs_of_a_template_keep_its_batch_so_that_they_compare() -> None:
    for template in {run.template for run in RUNS}:
        assert len({run.specification().training for run in RUNS if run.template == template}) == 1


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 60, 125)] == ["0:00", "0:59", "1:00", "2:05"]
