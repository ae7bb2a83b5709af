"""What is compared across commits by a strategy's name is said to be one plan, or two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.benchmarks import against_commit, rehearsed_against_commit
from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.resolved import PLAN, TITLE, resolved

JOB = {"model": "mlp", "workers": 2, "batch": 8, "steps": 4}
WAY = "parameter-server fp32 server slice 50000 when-ready priority push and 2 shards beside"
NOW = {"slice_size": "auto", PLAN: WAY.replace("50000", "200000")}
BEFORE = {"slice_size": "50000", PLAN: WAY}


def test_defaults_are_told_by_the_engine_of_a_tree() -> None:
    found = resolved(ROOT, {**JOB, "strategy": "p3", "options": {}})
    assert (found["slice_size"], found["codec"]) == ("auto", "fp32")
    assert found[PLAN] == WAY


@pytest.mark.soak  # each asks a process that loads PyTorch: that an option reaches it, one that is none shows below
def test_sizes_are_told_by_the_engine_of_a_tree() -> None:
    shorter = resolved(ROOT, {**JOB, "strategy": "p3", "options": {"slice_size": 500}})
    assert shorter[PLAN] == WAY.replace("50000", "500")


def test_what_a_tree_does_not_plan_fails_before_anything_is_measured() -> None:
    with pytest.raises(RuntimeError, match="plans no such job"):
        resolved(ROOT, {**JOB, "strategy": "p3", "options": {"slice_sise": 500}})


@contextmanager
def no_tree(commit: str) -> Iterator[Path]:
    yield Path(commit)


def test_a_strategy_whose_default_changed_is_not_compared_unsaid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def run(tree: Path, job: dict[str, Any]) -> dict[str, Any]:
        asked.append(job)
        return {"iteration_s": 1.0, "cpu_s": 1.0, "cpu_share": 0.5}

    for module in (against_commit, rehearsed_against_commit):
        monkeypatch.setattr(module, "work_tree", no_tree)
        monkeypatch.setattr(module, "resolved", lambda tree, job: NOW if tree == ROOT else BEFORE)
    monkeypatch.setattr(against_commit, "take_turns", lambda programs, **_: {who: [1e6] for who in programs})
    monkeypatch.setattr(rehearsed_against_commit, "require_lab", lambda: None)
    monkeypatch.setattr(rehearsed_against_commit, "run", run)
    for module, name in ((against_commit, "p3 on mlp"), (rehearsed_against_commit, "p3")):
        arguments = ["benchmark", "before", "--quick", "--out", str(tmp_path / module.__name__)]
        monkeypatch.setattr("sys.argv", arguments)
        module.main()
        said = capsys.readouterr().out
        assert (
            f"WARNING: {name} is not the same plan at both commits (slice_size auto here and 50000 there"
            in said
        )
        (written,) = (tmp_path / module.__name__).glob("*.json")
        (row,) = json.loads(written.read_text())["tables"][TITLE]
        assert row["differs in"] == "slice_size, plan"
        assert "WARNING" in written.with_suffix(".md").read_text()
    assert {(job["strategy"], len(job["options"])) for job in asked} == {("p3", 0)}
    alike = {**NOW, PLAN: WAY}
    monkeypatch.setattr(
        rehearsed_against_commit, "resolved", lambda tree, job: alike if tree == ROOT else BEFORE
    )
    rehearsed_against_commit.main()
    said = capsys.readouterr().out
    assert ("WARNING" not in said, "| slice_size |" in said) == (True, True), "another default, the same plan"


def test_options_that_are_named_are_both_commits() -> None:
    job = against_commit._job("mlp", "p3:slice_size=500,where=dedicated", workers=2, batch=8, steps=4)
    assert job == {**JOB, "strategy": "p3", "options": {"slice_size": 500, "where": "dedicated"}}
