"""Runs the suite, all lanes at once: `python -m tests.suite [arguments for pytest]`. `make test` is this.

One pytest, whose plugin this is, collects all tests; then each lane goes on in a copy of it (`tests/one_lane.py`). Most
tests that start processes wait for them, so that one lane's waits are another's time. What a lane said is printed
when it has ended; then its tests, the time that passed and the processor seconds of all its processes stand beside its
budget, which counts seconds of the machine in `tests/speed.py`; what one of those takes here is measured now and then
while the lanes run. A lane over its budget is said to be; one that is over it by more than the measurement's own
uncertainty fails where TRAINYARD_HOLD_BUDGETS=1, as in continuous integration. A run without arguments also proves
that no test fell between the lanes.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from statistics import fmean

import pytest

from tests.lanes import AIM_S, LANES, SOAK, Ledger
from tests.one_lane import NOTHING_CHOSEN, Part, Result, begin, log_of
from tests.speed import load_s

HOLD = "TRAINYARD_HOLD_BUDGETS"
BUDGETS = {lane.name: lane.cpu_s for lane in LANES}
WHOLE = "TRAINYARD_WHOLE_SUITE"
"""The environment variable that says that pytest was given no arguments."""
_HELD = 1.1
"""Times its budget, a lane fails. The loads of one run differ by a fifth, and two runs of one commit by 9 % of the
budget's seconds (467 and 508), so that a lane just within its budget is over it by chance."""
_SAY_S = 120.0
"""Between two lines that say how far the lanes are, and between two measurements of the machine, each of which takes it
a second and a half."""
_END_S = 120.0
"""How long a pytest may take to end when its tests have run: else it says where each thread is, and its lane fails."""
_status: dict[str, int] = {}
"""The suite's exit status, in the process that watches the lanes, when they have ended."""


def main(arguments: list[str]) -> None:
    """Become the pytest that collects."""
    # Threads of one process that wait for one another, on processors that others use, too, do nothing but wait.
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", WHOLE: "" if arguments else "1"}
    # Thousands of processes start here: each would compile every module of ours again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # Not from this module: multiprocessing would import whatever is `__main__` into each of its processes.
    command = [sys.executable, "-m", "pytest", "-p", "tests.lanes", "-p", "tests.suite", *arguments]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the lanes in place of the tests; in a lane, its part of them."""
    config = session.config
    if session.testsfailed or config.option.collectonly:
        return None  # as without us
    if "torch" in sys.modules:
        import_module("engine.gang.preload")  # each lane would, and read the sources of all tests
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"\ncollected with {used.ru_utime + used.ru_stime:.0f} processor seconds; the lanes begin", flush=True
    )
    begun, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="trainyard-lanes-"))
    lanes: dict[str, int] = {}
    for lane in LANES:
        what = begin(lane, folder, session)
        if isinstance(what, Part):
            what.run(session)
            return True
        lanes[lane.name] = what
    config.pluginmanager.unregister(name="terminalreporter")  # no test ran here
    ledger = config.pluginmanager.getplugin("lane-ledger")
    assert isinstance(ledger, Ledger)
    try:
        loads = [load_s()]
        results = _ended(lanes, folder, begun, loads)
    finally:
        shutil.rmtree(folder)
    _status["code"] = _report(results, loads, time.monotonic() - begun, ledger.collected)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "code" in _status:
        session.exitstatus = _status["code"]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """All tests have run. A thread that never ends would be waited for for ever, and nothing would say whose it is."""
    faulthandler.dump_traceback_later(_END_S, exit=True, file=sys.__stderr__)


def _report(results: list[Result], loads: list[float], wall_s: float, collected: Counter[str]) -> int:
    """Print what the lanes did; the exit status."""
    slowness, cpu_s = fmean(loads), sum(result.cpu_s for result in results)
    print(
        f"\n== the lanes ({slowness:.2f} s here are a budget's second: {min(loads):.2f} to {max(loads):.2f})"
    )
    for result in results:
        print(_line(result, slowness))
    tests = sum(result.ran for result in results)
    print(
        f"{'all':8} {tests:5} tests  {wall_s:4.0f} s of {AIM_S} on two cores  {cpu_s:5.0f} processor seconds"
    )
    failed = complaints(results, slowness, collected if os.environ.get(WHOLE) else None)
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


def _ended(lanes: dict[str, int], folder: Path, begun: float, loads: list[float]) -> list[Result]:
    """The results of all lanes, as they end; how far the others are is said now and then, and measured how fast the
    machine is."""
    results: list[Result] = []
    running, said = dict(lanes), time.monotonic()
    try:
        while running:
            time.sleep(0.1)
            for name, pid in list(running.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended:
                    continue
                del running[name]
                print(f"\n== lane {name}\n{_text(folder, name)}", flush=True)
                results.append(Result.read(folder, name, os.waitstatus_to_exitcode(status)))
                print(_line(results[-1], fmean(loads)), flush=True)
            if running and time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                loads.append(load_s())
                how_far = (f"{name} {_percent(folder, name)} %" for name in running)
                print(f"after {said - begun:.0f} s: {', '.join(how_far)}", flush=True)
    except BaseException:  # they say what they have before they end
        for pid in running.values():
            os.kill(pid, signal.SIGINT)
        for name, pid in running.items():
            os.waitpid(pid, 0)
            print(f"\n== lane {name}\n{_text(folder, name)}", flush=True)
        raise
    return results


def _logs(folder: Path, lane: str) -> list[str]:
    """What each pytest of a lane has said."""
    paths = sorted(folder.glob(log_of(folder, lane, 0).name.replace("-0", "-*")))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in paths]


def _text(folder: Path, lane: str) -> str:
    return "\n".join(_logs(folder, lane))


def _percent(folder: Path, lane: str) -> int:
    """How far a lane is, as its pytests say themselves: each says its share of all the lane's tests."""
    return sum(int((re.findall(r"\[ *(\d+)%\]", text) or ["0"])[-1]) for text in _logs(folder, lane))


def _line(result: Result, slowness: float) -> str:
    """What a lane took, on a machine where the budget's second takes `slowness` seconds."""
    budget_s = BUDGETS[result.lane]
    text = (
        f"{result.lane:8} {result.ran:5} tests  {result.wall_s:4.0f} s  {result.cpu_s:5.0f} processor seconds,"
        f" {result.cpu_s / slowness:4.0f} of {budget_s:4}"
    )
    if result.cpu_s > budget_s * slowness:
        text += "  OVER ITS BUDGET"
    return text + "".join(f"\n         left behind: {command}" for command in result.left)


def complaints(results: list[Result], slowness: float, collected: Counter[str] | None) -> list[str]:
    """What went wrong. `collected`: how many tests each lane has, where all of them were to run."""
    failed = [f"lane {r.lane} failed" for r in results if r.code not in (0, NOTHING_CHOSEN)]
    if all(r.code == NOTHING_CHOSEN for r in results):
        failed.append("no test was chosen")
    if collected is not None:
        failed += [
            f"lane {r.lane} ran {r.ran} of its {collected[r.lane]} tests"
            for r in results
            if r.ran != collected[r.lane]
        ]
        total, soaks = sum(r.ran for r in results), collected[SOAK]
        if total + soaks != collected.total():
            failed.append(f"{collected.total()} tests were collected, {total} ran and {soaks} are soaks")
    if os.environ.get(HOLD) == "1":
        over = [r.lane for r in results if r.cpu_s > BUDGETS[r.lane] * slowness * _HELD]
        failed += [f"lane {lane} took more than {_HELD:.0%} of its budget" for lane in over]
    return failed


if __name__ == "__main__":
    main(sys.argv[1:])
