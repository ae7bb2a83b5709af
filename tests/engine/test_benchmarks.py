"""The benchmarks' harness: what it computes, what it writes, and one real run."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine import benchmarks
from engine.axes.codec import CODEC
from engine.benchmarks.harness.jobs import Measured, bench_job, interleaved, measure
from engine.benchmarks.harness.machine import commit, cpu_use, hardware, parse_stat
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, ratio, rounds
from engine.benchmarks.harness.report import Report
from engine.errors import UserError
from engine.strategies import build_plan
from engine.telemetry.spool import batches
from tests.jobs import describe

STAT = """cpu  100 10 40 800 30 5 15 0 20 10
cpu0 50 5 20 400 15 2 8 0 10 5
intr 1 2 3
"""


def test_cpu_time_is_counted_once() -> None:
    """Idle and iowait are not busy; guests are in user and nice already (proc(5))."""
    assert parse_stat(STAT) == (100 + 10 + 40 + 5 + 15, 1000)


def test_interval_holds_the_median_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        found = ratio(draw.lognormal(0.1, 0.5, 12), np.ones(12))
        held += found.low <= np.exp(0.1) <= found.high
    assert held / 2000 == pytest.approx(found.coverage, abs=0.015)
    assert found.coverage >= 0.95


@pytest.mark.parametrize(("pairs", "significant"), [(FEWEST_ROUNDS - 1, False), (FEWEST_ROUNDS, True)])
def test_fewer_pairs_prove_nothing(pairs: int, significant: bool) -> None:
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
    script = import_module(f"engine.benchmarks.{name}")
    assert callable(script.main)
    assert f"python -m engine.benchmarks.{name}" in script.__doc__


def test_asynchronous_workers_are_as_fast_as_each_is() -> None:
    script = import_module("engine.benchmarks.stragglers")
    run = SimpleNamespace(step_ns=((10**9,) * 3, (2 * 10**9,) * 3, (5 * 10**8, 10**9, 10**9)))
    assert script.throughput(run, 8) == 8 + 4 + 8


def test_trainings_are_looked_at_after_as_many_samples_and_as_much_time() -> None:
    script = import_module("engine.benchmarks.stragglers")

    def looks(*found: tuple[float, int, float]) -> list[Any]:
        return [script.Look(time_s=time, samples=samples, accuracy=share) for time, samples, share in found]

    slow = looks((5, 100, 50), (10, 200, 70))
    fast = looks((3, 100, 40), (6, 200, 60), (9, 300, 80), (12, 400, 90))
    found = script.compared({"parameter-server": slow, "async-sgd": fast})
    assert found == {"parameter-server": (slow[1], slow[1]), "async-sgd": (fast[1], fast[2])}


def test_memory_counts_a_storage_once_whoever_looks_into_it() -> None:
    memory = import_module("engine.benchmarks.memory")
    whole = torch.zeros(10)
    seen: dict[int, int] = {}
    assert memory._storages([None, torch.zeros(0), whole[2:5]], seen) == 5 * 4
    assert memory._storages([whole.view(2, 5)[:, :2], whole, torch.zeros(3)], seen) == 5 * 4 + 3 * 4
    assert memory._storages([whole], seen) == 0


def test_memory_of_a_rehearsal_is_called_so_in_every_row() -> None:
    memory = import_module("engine.benchmarks.memory")
    rehearsal = {"device": "p100", "scale": 5}
    found = [({"Rss": 3 * 2**20}, dict.fromkeys(memory.PARTS, size * 2**20)) for size in (1, 1, 2)]
    for given, label in ((None, "no"), (rehearsal, "rehearsed: compute of P100 derived from FLOPs")):
        spec = bench_job("vgg19", "model-parallel", workers=4, batch=4, steps=8, rehearsal=given)
        workers = memory.one_of_each_part(spec, found)
        assert [one["worker"] for one in workers] == [0, 2]
        assert {one["rehearsed"] for one in workers} == {spec.rehearsed}
        for one in workers:
            shown = dict(zip(memory.COLUMNS, memory.row(one), strict=True))
            assert shown["rehearsed"].startswith(label)
            assert (shown["model"], shown["Rss"]) == ("vgg19", "3.0")


def measured(cpu_share: float) -> Measured:
    values = {**dict.fromkeys(Measured.__dataclass_fields__, 1), "step_ns": (), "cpu_share": cpu_share}
    return Measured(**values)


def test_cpu_use_is_marked_where_this_machine_is_measured() -> None:
    """One limit for all: the highest of the runs counts."""
    assert [cpu_use([0.1, share]) for share in (0.7, 0.71)] == ["70%", "71% BUSY"]
    late, recorder, sweep, scaling = (
        import_module(f"engine.benchmarks.{name}")
        for name in ("late_multiply", "recorder_overhead", "sweep", "scaling")
    )
    runs = [measured(0.2), measured(0.8)]
    cell = sweep.Cell(model="vgg19", mbps=(300,))
    assert [row[-1] for row in late.rows_of(cell, {"ddp": runs[:1], "p3": runs[1:]}, 1.0)] == [
        "20%",
        "80% BUSY",
    ]
    assert [row[-1] for row in recorder.rows_of({"off": runs[:1], "server answers": runs[1:]})] == [
        "20%",
        "80% BUSY",
    ]
    assert scaling.row("vgg19", "p3", 2, runs, 1.0)[-1] == "80% BUSY"


def report(directory: Path, *, quick: bool = False) -> Report:
    return Report("trial", "A trial", "Is it written?", argparse.Namespace(quick=quick, out=directory))


def written(directory: Path, *, quick: bool = False) -> Path:
    with report(directory, quick=quick) as trial:
        pass
    return trial.path


def test_a_result_says_where_it_comes_from(tmp_path: Path) -> None:
    with report(tmp_path) as trial:
        trial.method("Twice.")
        for rows in ([["a", 1.23456]], [["a", 1.23456], ["b", 2]]):
            trial.table("Found", ["what", "value"], rows)
        trial.raw([{"name": "a", "values": [1, 2]}])
    data = json.loads(trial.path.read_text())
    assert data["hardware"].keys() == hardware().keys()
    assert data["commit"] == commit()
    assert data["tables"] == {"Found": [{"what": "a", "value": 1.23456}, {"what": "b", "value": 2}]}
    assert data["raw"] == [{"name": "a", "values": [1, 2]}]
    assert "incomplete" not in data
    text = trial.path.with_suffix(".md").read_text()
    for part in ("# A trial", "Is it written?", "Twice.", "| a | 1.235 |", data["command"], data["commit"]):
        assert text.count(part) == 1


def test_what_lies_in_another_repository_has_no_commit_of_its_own(tmp_path: Path) -> None:
    """As when it is installed into the environment of somebody's project."""
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
    )
    installed = tmp_path / "packages"
    installed.mkdir()
    assert (commit(tmp_path), commit(installed)) == (head.stdout.strip(), "unknown")
    (installed / "new.py").touch()
    assert commit(tmp_path).endswith(" + changes")
    assert commit(tmp_path / "nowhere") == "unknown"


def test_another_commits_result_stays(tmp_path: Path) -> None:
    first = written(tmp_path)
    data = json.loads(first.read_text())
    first.write_text(json.dumps({**data, "commit": "of somebody else"}))
    second = written(tmp_path)
    assert second.stem == first.stem + "-2"
    assert json.loads(first.read_text())["commit"] == "of somebody else"


def test_a_quick_result_is_marked(tmp_path: Path) -> None:
    path = written(tmp_path, quick=True)
    assert path.stem.endswith("-quick")
    assert "(short set)" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize(("quick", "held", "code"), [(False, True, 0), (False, False, 1), (True, False, 0)])
def test_a_full_run_that_misses_an_aim_says_so_with_its_exit_code(
    tmp_path: Path, *, quick: bool, held: bool, code: int
) -> None:
    with report(tmp_path, quick=quick) as trial:
        trial.aims([("sooner", 3, True), ("farther", 7, held)])
    rows = json.loads(trial.path.read_text())["tables"]["Aims"]
    assert [row["held"] for row in rows] == ["yes", "yes" if held else "NO"]
    assert trial.exit_code() == code


def measure_until(end: Callable[[], None], trial: Report) -> None:
    with trial:
        trial.raw([{"name": "a", "value": 1}])
        trial.table("Found", ["what"], [["a"]])
        end()


def fail() -> None:
    raise RuntimeError("p3: not done after 900 s\n--- worker 0\nits last words")


def press_ctrl_c() -> None:
    """Also where a shell that started the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted_again() -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.raise_signal(signal.SIGTERM)  # as whoever ends what was started would meet it


@pytest.mark.parametrize(
    ("end", "error", "why"),
    [
        (fail, RuntimeError, "RuntimeError: p3: not done after 900 s"),
        (press_ctrl_c, KeyboardInterrupt, "KeyboardInterrupt"),
        (partial(signal.raise_signal, signal.SIGTERM), KeyboardInterrupt, "KeyboardInterrupt"),
        (interrupted_again, KeyboardInterrupt, "KeyboardInterrupt"),
    ],
    ids=["fails", "ctrl-c", "sigterm", "sigterm twice"],
)
def test_what_was_measured_before_the_end_came_is_kept(
    end: Callable[[], None], error: type[BaseException], why: str, tmp_path: Path
) -> None:
    """Beside a whole result of the same day, and marked as what it is. Signals are handled as before afterwards."""
    before, whole, trial = signal.getsignal(signal.SIGTERM), written(tmp_path), report(tmp_path)
    with pytest.raises(error):
        measure_until(end, trial)
    assert signal.getsignal(signal.SIGTERM) is before
    assert trial.path.stem == f"{whole.stem}-incomplete"
    data = json.loads(trial.path.read_text())
    assert (data["incomplete"], data["title"]) == (why, "A trial (incomplete)")
    assert (data["raw"], data["tables"]) == ([{"name": "a", "value": 1}], {"Found": [{"what": "a"}]})
    assert f"**Incomplete**: it ended before its end ({why})." in trial.path.with_suffix(".md").read_text()


def test_before_anything_was_measured_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), report(tmp_path):
        fail()
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("gang_lane")
def test_a_run_outlives_the_failure_of_the_next(tmp_path: Path) -> None:
    jobs = {
        "first": bench_job("mlp", "single", workers=1, batch=4, steps=4),
        "second": bench_job("mlp", "single", workers=2, batch=4, steps=4),
    }
    with pytest.raises(UserError), report(tmp_path) as trial:
        interleaved(jobs, 1, trial, {"model": "mlp"}, warm_up=2)
    (row,) = json.loads(trial.path.read_text())["raw"]
    assert (row["model"], row["strategy"], row["round"]) == ("mlp", "first", 0)
    assert row["iteration_s"] > 0


@pytest.mark.usefixtures("gang_lane")
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


def test_the_cost_of_a_checkpoint_is_what_its_steps_take_beyond_their_median() -> None:
    """The iteration of step 9 captures what step 10 begins with, and three are slower while it is written."""
    script = import_module("engine.benchmarks.checkpoint_cost")
    times = [100] * 45  # from step 5 on
    for step in (9, 19, 29, 39):
        times[step - 5 : step - 2] = [130, 120, 110]
    assert script.beyond_ns(times, 10) == [60, 60, 60, 60]


def test_accuracy_is_compared_seed_by_seed() -> None:
    """A codec keeps it where the interval of the differences lies above half a point below."""
    accuracy = import_module("engine.benchmarks.accuracy")
    found = {
        "fp32": [90.0, 92.0, 94.0, 96.0],
        "int8": [90.1, 91.9, 94.0, 96.0],
        "one-bit": [89.0, 92.0, 93.0, 96.0],
        "top-k": [],
    }
    rows = {row[0]: row[1:] for row in accuracy.rows(found, {name: [1.0, 3.0, 2.0, 2.0] for name in found})}
    assert rows["fp32"] == ["93.00", "-", "-", "-", "2.0"]
    assert rows["int8"] == ["93.00", "+0.00", "-0.13 to +0.13", "yes", "2.0"]
    assert rows["one-bit"] == ["92.50", "-0.50", "-1.42 to +0.42", "NO", "2.0"]
    assert "top-k" not in rows


@pytest.mark.parametrize("problem", ["digits", "images"])
def test_every_codec_can_be_asked_about_its_accuracy(problem: str) -> None:
    accuracy = import_module("engine.benchmarks.accuracy")
    model = describe(accuracy.job(problem, "fp32", 1))
    for codec in [row for row in CODEC if row.available]:
        spec = accuracy.job(problem, codec.name, 3, steps=7)
        plan = build_plan(spec, model)
        assert {layer.codec for layer in plan.layers} == {codec.name}
        assert (spec.training.seed, spec.training.steps) == (3, 7)
        assert spec.optimizer.options == ({} if "own" in codec.traits else {"momentum": 0.9})
        assert (spec.optimizer.learning_rate < 0.01) == ("votes" in codec.traits)
