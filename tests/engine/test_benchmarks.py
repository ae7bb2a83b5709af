"""The benchmarks' harness: what it computes, what it writes, and one real run."""

from __future__ import annotations

import argparse
import json
import statistics
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import benchmarks
from engine.benchmarks.harness.jobs import bench_job, measure
from engine.benchmarks.harness.machine import commit, hardware, parse_stat
from engine.benchmarks.harness.pairs import ratio, rounds
from engine.benchmarks.harness.report import Report
from engine.telemetry.spool import batches

STAT = """cpu  100 10 40 800 30 5 15 0 20 10
cpu0 50 5 20 400 15 2 8 0 10 5
intr 1 2 3
"""


def test_cpu_time_is_counted_once() -> None:
    """Idle and iowait are not busy, nor what gives way; guests are in user and nice already (proc(5))."""
    assert parse_stat(STAT) == (100 + 40 + 5 + 15, 1000)


def test_interval_holds_the_median_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        found = ratio(draw.lognormal(0.1, 0.5, 12), np.ones(12))
        held += found.low <= np.exp(0.1) <= found.high
    assert held / 2000 == pytest.approx(found.coverage, abs=0.015)
    assert found.coverage >= 0.95


@pytest.mark.parametrize(("pairs", "significant"), [(5, False), (6, True)])
def test_five_pairs_prove_nothing(pairs: int, significant: bool) -> None:
    found = ratio([2.0 + i / 10 for i in range(pairs)], [1.0] * pairs)
    assert found.significant is significant
    assert (found.low, found.high) == (2.0, 2.0 + (pairs - 1) / 10)


def test_an_interval_with_one_inside_is_no_difference() -> None:
    assert not ratio([0.99, 1.0, 1.01, 1.02, 1.0, 0.98, 1.03], [1.0] * 7).significant


def test_pairs_need_both() -> None:
    with pytest.raises(ValueError, match="3 and 2 rounds"):
        ratio([1, 2, 3], [1, 2])


def test_rounds_turn_their_order() -> None:
    assert [name for _, name in rounds("ab", 3)] == ["a", "b", "b", "a", "a", "b"]


SCRIPTS = sorted(path.stem for path in Path(benchmarks.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_can_be_started(name: str) -> None:
    """What it uses is still there, and its plan names how to run it."""
    if name == "transport_choice":
        pytest.importorskip("zmq", reason="a candidate that is installed for benchmarks only")
    script = import_module(f"engine.benchmarks.{name}")
    assert callable(script.main)
    assert f"python -m engine.benchmarks.{name}" in script.__doc__


def test_memory_counts_a_storage_once_whoever_looks_into_it() -> None:
    memory = import_module("engine.benchmarks.memory")
    whole = torch.zeros(10)
    seen: dict[int, int] = {}
    assert memory._storages([None, torch.zeros(0), whole[2:5]], seen) == 5 * 4
    assert memory._storages([whole.view(2, 5)[:, :2], whole, torch.zeros(3)], seen) == 5 * 4 + 3 * 4
    assert memory._storages([whole], seen) == 0


def report(directory: Path, *, quick: bool = False) -> Report:
    return Report("trial", "A trial", "Is it written?", argparse.Namespace(quick=quick, out=directory))


def test_a_result_says_where_it_comes_from(tmp_path: Path) -> None:
    trial = report(tmp_path)
    trial.method("Twice.")
    trial.table("Found", ["what", "value"], [["a", 1.23456], ["b", 2]])
    trial.raw([{"name": "a", "values": [1, 2]}])
    path = trial.write()
    data = json.loads(path.read_text())
    assert data["hardware"].keys() == hardware().keys()
    assert data["commit"] == commit()
    assert data["tables"] == {"Found": [{"what": "a", "value": 1.23456}, {"what": "b", "value": 2}]}
    assert data["raw"] == [{"name": "a", "values": [1, 2]}]
    text = path.with_suffix(".md").read_text()
    for part in ("# A trial", "Is it written?", "Twice.", "| a | 1.235 |", data["command"], data["commit"]):
        assert part in text


def test_another_commits_result_stays(tmp_path: Path) -> None:
    first = report(tmp_path).write()
    data = json.loads(first.read_text())
    first.write_text(json.dumps({**data, "commit": "of somebody else"}))
    second = report(tmp_path).write()
    assert second.stem == first.stem + "-2"
    assert json.loads(first.read_text())["commit"] == "of somebody else"


def test_a_quick_result_is_marked(tmp_path: Path) -> None:
    path = report(tmp_path, quick=True).write()
    assert path.stem.endswith("-quick")
    assert "(short set)" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize(("quick", "held", "code"), [(False, True, 0), (False, False, 1), (True, False, 0)])
def test_a_full_run_that_misses_an_aim_says_so_with_its_exit_code(
    tmp_path: Path, *, quick: bool, held: bool, code: int
) -> None:
    trial = report(tmp_path, quick=quick)
    trial.aims([("sooner", 3, True), ("farther", 7, held)])
    rows = json.loads(trial.write().read_text())["tables"]["Aims"]
    assert [row["held"] for row in rows] == ["yes", "yes" if held else "NO"]
    assert trial.exit_code() == code


@pytest.mark.parametrize(
    ("strategy", "period", "record"), [("p3", 1, True), ("parameter-averaging", 2, False)]
)
def test_a_real_job_is_measured(strategy: str, period: int, record: bool, tmp_path: Path) -> None:
    """Two workers on a paced link: every worker has its iteration times; without the recorder these are all. Where they
    average, the job's is of whole periods, here of steps 2 and 3, 4 and 5, 6 and 7."""
    options = {} if period == 1 else {"period": period}
    job = bench_job("mlp", strategy, workers=2, batch=4, steps=9, options=options, network={"rate": "50Mbit"})
    found = measure(job, warm_up=2, record=record, directory=tmp_path)
    assert [len(worker) for worker in found.step_ns] == [6, 6]
    medians = [float(np.median(worker)) for worker in found.step_ns]
    if period == 2:
        rows = [
            np.concatenate([b.table("steps") for b in batches(tmp_path / "spool") if b.party == w])
            for w in (0, 1)
        ]
        medians = [
            statistics.median(
                (int(own["end"][s] - own["start"][s]) + int(own["start"][s + 2] - own["start"][s + 1])) / 2
                for s in (2, 4, 6)
            )
            for own in (np.sort(each, order="step") for each in rows)
        ]
    assert found.iteration_ns == max(medians)
    assert 0 < found.cpu_share <= 1
    assert (found.sent_bps > 0) is record
