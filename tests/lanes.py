"""The lanes of the suite: every test belongs to exactly one, and its fixtures say to which.

A test is in the lane of the most expensive thing that it uses. Fixtures stand for these things: `browser` is one by
itself; a test or a fixture that starts gangs asks for `gang_lane`, one that starts servers or supervisors for
`server_lane`. What asks for none of them is `light`, runs beside others, and may start neither: it fails when it tries.
The marker `soak` goes before all: such a test runs under `make soak` only.

This is a plugin of pytest: `--lane NAME` runs one lane. Without it all run, but for the soaks.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

LEDGER = "TRAINYARD_LANE_LEDGER"
"""The environment variable that names the file into which a run writes what it collected and what it ran."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One lane."""

    name: str
    fixture: str | None
    """Whoever has this fixture, directly or through another one, is in this lane; None: who has none of the others'."""
    cpu_s: int
    """Budget: processor seconds of all its processes, on the machine that `tests/speed.py` names. Unlike the time
    that passes they hardly depend on what else a machine does."""
    at_once: int = 1
    """In so many pytests its tests may run side by side, each with residents and servers of its own."""
    nice: int = 0
    """Of its processes: who has less goes first, where that is permitted."""


LANES = (
    # Its tests come one after another: last of all, they would leave one of two processors idle.
    Lane(name="browser", fixture="browser", cpu_s=470, nice=-4),
    Lane(name="server", fixture="server_lane", cpu_s=235),
    # What a gang's processes do one after another, and what waits for it, leaves a processor to another gang.
    Lane(name="gang", fixture="gang_lane", cpu_s=495, at_once=2),
    # What the others leave of the processors, because they mostly wait, is almost enough for these.
    Lane(name="light", fixture=None, cpu_s=500, at_once=8, nice=2),
)
"""The most expensive first: a test with several of the fixtures is in the first lane of those."""
AIM_S = 720
"""What all lanes together should take on two quiet cores: printed, not held."""
SOAK = "soak"
NAMES = (*(lane.name for lane in LANES), SOAK)


@pytest.fixture(scope="session")
def gang_lane() -> None:
    """Whoever asks for this may start gangs, and is in their lane."""


@pytest.fixture(scope="session")
def server_lane() -> None:
    """Whoever asks for this may start servers, executors and supervisors, and is in their lane."""


def lane_of(item: pytest.Item) -> str:
    """The one lane that a test belongs to."""
    if item.get_closest_marker(SOAK):
        return SOAK
    fixtures = getattr(item, "fixturenames", ())
    return next(lane.name for lane in LANES if lane.fixture is None or lane.fixture in fixtures)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=NAMES, help="run the tests of this lane only")


def pytest_configure(config: pytest.Config) -> None:
    for name in NAMES:
        config.addinivalue_line("markers", f"{name}: the lane; set by tests/lanes.py, but for soak")
    config.pluginmanager.register(Ledger(config), "lane-ledger")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Nothing that is imported for the tests is garbage: looking for it took a tenth of their collection, and would be
    done again whenever a test collects its own. And pytest gives and takes a handler, six times for each test, to every
    logger that hands nothing on: PyTorch has dozens of those, which hand on to pytest's from now on."""
    gc.disable()
    try:
        return (yield)
    finally:
        for name, logger in logging.root.manager.loggerDict.items():
            if name.startswith("torch") and isinstance(logger, logging.Logger):
                logger.propagate = True
        gc.freeze()
        gc.enable()


class Ledger:
    """Selects the tests of the lane, and writes down what was collected and what was run."""

    def __init__(self, config: pytest.Config) -> None:
        self.path = os.environ.get(LEDGER)
        self.collected = Counter[str]()
        """How many tests each lane has."""
        self._lane: str | None = config.getoption("--lane")
        self._soaks = self._lane == SOAK or SOAK in config.getoption("markexpr")
        self._ran: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        lanes = [lane_of(item) for item in items]
        for item, lane in zip(items, lanes, strict=True):
            item.add_marker(lane)
        self.collected.update(lanes)
        if self.path:
            _write(f"{self.path}.collected", {"collected": len(items), "lanes": self.collected})
        chosen = [item for item, lane in zip(items, lanes, strict=True) if self._wants(lane)]
        left = set(items).difference(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = chosen

    def _wants(self, lane: str) -> bool:
        return (self._soaks or lane != SOAK) if self._lane is None else lane == self._lane

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ran.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.path:
            _write(f"{self.path}.ran", {"ran": len(self._ran)})


def _write(path: str, found: dict[str, Any]) -> None:
    Path(path).write_text(json.dumps(found), encoding="utf-8")


# --- what a light test may not do ---

_fixtures: frozenset[str] = frozenset(("gang_lane", "server_lane"))
"""Of the running test; outside of tests everything may be started."""
_PROGRAMS = {
    "-m backend.cli.main serve ": "server_lane",
    "-m backend.executors.supervisor ": "server_lane",
    "-m tests.backend.gang_of_programs ": "server_lane",
    "-m tests.engine.gang_program ": "gang_lane",
}
"""What the command line of such a process holds -> the fixture."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _fixtures  # noqa: PLW0603
    before, _fixtures = _fixtures, frozenset(getattr(item, "fixturenames", ()))
    try:
        return (yield)
    finally:
        _fixtures = before


def require(*fixtures: str) -> None:
    """Fail where the running test has none of these fixtures: it would be in the wrong lane."""
    if not _fixtures.intersection(fixtures):
        names = " or ".join(repr(name) for name in fixtures)
        raise AssertionError(
            f"this test has no fixture {names}, so it is in a lane for tests that start no such processes. "
            f"Ask for the fixture, or mark the test: pytest.mark.usefixtures({fixtures[0]!r})"
        )


_start_program = subprocess.Popen.__init__


def _start_program_where_allowed(
    process: subprocess.Popen[Any], args: Any, *more: Any, **options: Any
) -> None:
    line = "" if isinstance(args, str | bytes | os.PathLike) else " ".join(map(str, args)) + " "
    for words, fixture in _PROGRAMS.items():
        if words in line:
            require(fixture)
    _start_program(process, args, *more, **options)


# An audit hook would hear of it, too, and of hundreds of other events for each: it took a twentieth of all computing.
subprocess.Popen.__init__ = _start_program_where_allowed  # type: ignore[method-assign]
_start = ForkServerProcess.start


def _start_where_allowed(process: ForkServerProcess) -> None:
    require("gang_lane", "server_lane", "browser")
    _start(process)


ForkServerProcess.start = _start_where_allowed  # type: ignore[method-assign]
