"""Rounds of kill -9 with a real server and real jobs; and that what is checked after each can fail. Two rounds kill
everybody once; ten more are a soak."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from backend.chaos import checks
from backend.chaos.lineage import Lineage
from backend.chaos.places import Places
from backend.chaos.ray_nodes import ray_nodes
from backend.chaos.script import DEVICES, FATAL, draw
from backend.chaos.yard import Yard
from backend.db.engine import sqlite_file, sqlite_url
from backend.executors import files, process
from tests.backend.executor_attempts import until

FEW = [(334, 0), (334, 1)]
MANY = [(3, number) for number in range(10)]
"""Seed and number of a round."""
ROUNDS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.soak)]
ROUND = [*FEW, *(pytest.param(*one, marks=pytest.mark.soak) for one in MANY)]


@pytest.fixture(
    scope="module", params=["auto", *(pytest.param(one, marks=pytest.mark.soak) for one in ("python", "ray"))]
)
def yard(
    server_lane: None,
    tmp_path_factory: pytest.TempPathFactory,
    descriptions: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Yard]:
    data_dir = tmp_path_factory.mktemp("chaos")
    (data_dir / "cache").symlink_to(descriptions)
    with ExitStack() as stack:
        nodes = stack.enter_context(ray_nodes(2, cpus=DEVICES)) if request.param == "ray" else None
        plane = "auto" if nodes is not None else request.param
        yield stack.enter_context(Yard(data_dir, plane, nodes=nodes))


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_seed_draws_the_same_rounds_and_everybody_dies_in_some(rounds: list[tuple[int, int]]) -> None:
    drawn = [draw(*one) for one in rounds]
    assert drawn == [draw(*one) for one in rounds]
    assert {step.act for script in drawn for step in script.steps} >= set(FATAL)


@pytest.mark.parametrize(("seed", "number"), ROUND)
def test_after_every_round_nothing_is_lost_left_or_wrong(yard: Yard, seed: int, number: int) -> None:
    story, wrong = yard.round(seed, number)
    assert not wrong, "\n".join([*story, *wrong])


@pytest.mark.parametrize("rounds", ROUNDS)
def test_after_all_rounds_everything_is_still_there(yard: Yard, rounds: list[tuple[int, int]]) -> None:
    assert yard.at_last() == []
    assert len(yard.witness.acknowledged) > len(rounds)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("DELETE FROM batches WHERE attempt_id = 1 AND party = 0 AND sequence = 0", "was acknowledged, but"),
        ("UPDATE layer_totals SET count = count + 1 WHERE attempt_id = 1", "its batches say"),
        ("DELETE FROM step_rows WHERE attempt_id = 1 AND step = 3", "not those of its batches"),
        ("UPDATE attempts SET reason = 'process-failed' WHERE id = 1", "may end with completed"),
        ("UPDATE jobs SET state = 'cancelled'", "its last attempt is not"),
        ("DELETE FROM transitions WHERE to_state = 'starting'", "its story is"),
    ],
)
def test_what_is_checked_can_fail(yard: Yard, tmp_path: Path, harm: str, said: str) -> None:
    file = sqlite_file(yard.database)
    assert file is not None
    with sqlite3.connect(file) as source, sqlite3.connect(tmp_path / "trainyard.db") as copy:
        source.backup(copy)
        assert copy.execute(harm).rowcount > 0
    assert said in "\n".join(yard.wrong_in(sqlite_url(tmp_path / "trainyard.db")))


@pytest.fixture
def lineage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lineage]:
    monkeypatch.setattr(checks, "ORPHAN_S", 0.5)
    lineage = Lineage(Places(data_dir=tmp_path))
    yield lineage
    lineage.close()


def test_a_process_that_stays_is_an_orphan(tmp_path: Path, lineage: Lineage) -> None:
    directory = tmp_path / "jobs" / "a" / "1"
    directory.mkdir(parents=True)
    marked = {**os.environ, process.MARKER: str(directory)}
    with subprocess.Popen(["sleep", "600"], env=marked) as child:
        assert [f"process {child.pid} " in line for line in checks.orphans(lineage)] == [True]
        child.kill()
    assert list(checks.orphans(lineage)) == []


def test_so_is_one_without_environment_whose_ancestors_are_dead(tmp_path: Path, lineage: Lineage) -> None:
    directory = tmp_path / "jobs" / "a" / "1"
    directory.mkdir(parents=True)
    start = (
        "import subprocess; subprocess.Popen(['/bin/sleep', '600'], env={}, start_new_session=True).wait()"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", start]) as parent:
        first = process.identity(parent.pid)
        assert first is not None
        files.claim(directory, first)
        stranger = until(lambda: process.descendants(parent.pid), "it has started another")[0]
        until(lambda: (directory, stranger) in lineage.living(), "it is seen")
        parent.kill()
    try:
        assert process.marked(directory) == []
        assert [f"process {stranger.pid} " in line for line in checks.orphans(lineage)] == [True]
    finally:
        process.send(stranger, signal.SIGKILL)
    until(lambda: not process.is_alive(stranger), "it has ended")
    assert list(checks.orphans(lineage)) == []
