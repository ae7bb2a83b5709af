"""The suite itself: every test has one lane, a test in the wrong one fails, and covering arrays cover."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from random import Random

import pytest

from tests.arrays import cover, covering_rows
from tests.backend.conftest import ON_BOTH, ON_SQLITE, STARTED_ANEW
from tests.facilities import REQUIRED, required
from tests.lanes import AIM_S, LANES, LEDGER, NAMES, require
from tests.one_lane import Result
from tests.suite import HOLD, WHOLE, complaints

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import subprocess, sys
import pytest

@pytest.fixture
def browser(): pass

@pytest.fixture
def page(browser, server_lane): pass

@pytest.fixture
def running(server_lane): pass

def test_light(): pass

@pytest.mark.parametrize("servers", [1, 2])
def test_a_parameter_is_no_lane(servers): pass

@pytest.mark.usefixtures("gang_lane")
def test_gang(): pass

def test_server(running, gang_lane): pass

def test_browser(page): pass

@pytest.mark.soak
def test_soak(page): pass

def test_in_the_wrong_lane():
    subprocess.run([sys.executable, "-m", "backend.cli.main", "serve", "--help"])
"""


def prepare(folder: Path) -> None:
    """A folder in which TESTS are those of pytest."""
    (folder / "test_them.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")


def lane_run(folder: Path, *arguments: str) -> tuple[str, dict[str, int], int]:
    """Run TESTS; pytest's last line, the count of every lane, and how many tests ran."""
    prepare(folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.lanes",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environment = os.environ | {LEDGER: str(folder / "ledger"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    collected = json.loads((folder / "ledger.collected").read_text())
    assert sum(collected["lanes"].values()) == collected["collected"] == 8
    ran = json.loads((folder / "ledger.ran").read_text())["ran"]
    return done.stdout.splitlines()[-1].partition(" in ")[0], collected["lanes"], ran


def test_every_test_is_in_the_lane_of_the_most_expensive_thing_that_it_uses(tmp_path: Path) -> None:
    said, lanes, ran = lane_run(tmp_path)
    assert lanes == {"light": 4, "gang": 1, "server": 1, "browser": 1, "soak": 1}
    assert said == "1 failed, 6 passed, 1 deselected", "the soak stays out, the test in the wrong lane fails"
    assert ran == 7


@pytest.mark.parametrize(("lane", "count"), [("gang", 1), ("soak", 1)])
def test_a_lane_runs_its_own_tests_only(lane: str, count: int, tmp_path: Path) -> None:
    said, _, ran = lane_run(tmp_path, "--lane", lane)
    assert said == f"{count} passed, {8 - count} deselected"
    assert ran == count


def test_all_lanes_go_on_from_one_collection(tmp_path: Path) -> None:
    """Each test once, in its lane, and those side by side in one of their processes."""
    prepare(tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.lanes",
        "-p",
        "tests.suite",
        "-p",
        "no:cacheprovider",
    ]
    environment = os.environ | {WHOLE: "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout.partition("== the lanes")[2]
    assert dict(re.findall(r"^(\w+) +(\d+) tests", said, re.MULTILINE)) == {
        "light": "4", "gang": "1", "server": "1", "browser": "1", "all": "7",
    }  # fmt: skip
    assert re.findall(r"^FAILED.*", said, re.MULTILINE) == ["FAILED: lane light failed"], done.stdout
    assert "test_in_the_wrong_lane" in done.stdout, "what a lane says is passed on"
    assert done.returncode == 1


def test_a_test_that_no_lane_ran_is_missed() -> None:
    results = [Result(lane=lane.name, code=0, wall_s=1, cpu_s=1, left=[], ran=2) for lane in LANES]
    collected = Counter({lane.name: 2 for lane in LANES}) + Counter(soak=3)
    assert complaints(results, slowness=1.0, collected=collected) == []
    (complaint, total) = complaints(results, slowness=1.0, collected=collected + Counter(gang=1))
    assert complaint == "lane gang ran 2 of its 3 tests"
    assert "12 tests were collected, 8 ran and 3 are soaks" in total


def test_lanes_have_names_fixtures_and_budgets_of_their_own() -> None:
    assert [lane.name for lane in LANES if lane.fixture is None] == ["light"]
    assert LANES[-1].fixture is None, "the others come first"
    assert len(set(NAMES)) == len(LANES) + 1
    assert all(0 < lane.cpu_s < 2 * AIM_S for lane in LANES)


def test_a_budget_is_held_in_seconds_of_one_stated_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = LANES[0]
    took = Result(lane=lane.name, code=0, wall_s=1, cpu_s=1.5 * lane.cpu_s, left=[], ran=1)
    monkeypatch.setenv(HOLD, "1")
    assert complaints([took], slowness=1.5, collected=None) == []
    # Which side of its budget a lane is on here, one run cannot tell.
    assert complaints([took], slowness=1.4, collected=None) == []
    assert complaints([took], slowness=1.3, collected=None) == [
        f"lane {lane.name} took more than 110% of its budget"
    ]
    monkeypatch.delenv(HOLD)
    assert complaints([took], slowness=1.3, collected=None) == []


def test_what_needs_a_lane_says_which_fixture_is_missing() -> None:
    with pytest.raises(AssertionError, match=r"no fixture 'gang_lane'.*usefixtures\('gang_lane'\)"):
        require("gang_lane")


def test_what_has_a_lane_or_a_way_of_its_own_is_there() -> None:
    """A name that nothing has any more would leave tests where they do not belong, unseen."""
    files = {path.stem: path for path in (ROOT / "tests" / "backend").glob("test_*.py")}
    assert files.keys() >= ON_SQLITE | STARTED_ANEW
    tests = "".join(files[name].read_text(encoding="utf-8") for name in sorted(ON_SQLITE))
    assert set(re.findall(r"^def (test_\w+)\(", tests, re.MULTILINE)) >= ON_BOTH


def test_a_machine_must_have_what_is_required_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRED, "disk, lab")
    assert required() == {"disk", "lab"}
    monkeypatch.setenv(REQUIRED, "disk,laboratory")
    with pytest.raises(pytest.UsageError, match=r"names laboratory\. Known: browser, compiler, delay, disk"):
        required()


@pytest.mark.parametrize("sizes", [(12, 3, 4), (2, 2, 2, 2), (5, 1)])
def test_covering_rows_hold_every_pair(sizes: tuple[int, ...]) -> None:
    axes = [[f"{axis}{value}" for value in range(size)] for axis, size in enumerate(sizes)]
    rows = covering_rows(*axes)
    wanted = {pair for one, other in combinations(axes, 2) for pair in map(frozenset, product(one, other))}
    assert {frozenset(pair) for row in rows for pair in combinations(row, 2)} == wanted
    assert len(rows) <= len(list(product(*axes)))


def test_three_axes_take_as_many_rows_as_the_largest_two_have_pairs() -> None:
    assert len(covering_rows(range(12), (2, 3, 4), "abcd")) == 12 * 4


def test_a_cover_takes_what_holds_most_of_what_is_missing_and_the_first_of_those() -> None:
    chance = Random(7)
    for _ in range(50):
        held = [set(chance.sample(range(40), chance.randrange(1, 9))) for _ in range(60)]
        wanted = set().union(*held[:30])
        missing, expected = set(wanted), []
        while missing:
            expected.append(max(range(60), key=lambda at: len(held[at] & missing)))
            missing -= held[expected[-1]]
        assert cover(held, wanted) == expected
    with pytest.raises(ValueError, match=r"nothing holds \{41\}"):
        cover([{1}, {2}], [1, 41])
