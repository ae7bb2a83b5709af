"""Runs the suite, all lanes at once: `python -m tests.suite [arguments for pytest]`. `make test` is this.

Most tests that start processes wait for them, so that one lane's waits are another's time. What a lane said is printed
when it has ended; then its tests, the time that passed and the processor seconds of all its processes stand beside its
budget, which counts seconds of the machine in `tests/speed.py`; what one of those takes here is measured every minute
while the lanes run. A lane over its budget fails where TRAINYARD_HOLD_BUDGETS=1, as in continuous integration. A
run without arguments also proves that no test fell between the lanes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

from tests.lanes import AIM_S, LANES, SOAK
from tests.one_lane import Result
from tests.speed import load_s

HOLD = "TRAINYARD_HOLD_BUDGETS"
BUDGETS = {lane.name: lane.cpu_s for lane in LANES}
_NOTHING_CHOSEN = 5
"""Exit status of pytest where no test was chosen."""
_SAY_S = 60.0
"""Between two lines that say how far the lanes are."""


def main(arguments: list[str]) -> int:
    """Run all lanes; exit status for the shell."""
    environment = dict(os.environ)
    # Thousands of processes start here: each would compile every module of ours again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    loads = [load_s()]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainyard-lanes-") as folder:
        lanes = {name: _start(name, Path(folder), arguments, environment) for name in BUDGETS}
        print(f"lanes {', '.join(lanes)} have begun; what each says is printed when it has ended", flush=True)
        results = _ended(lanes, Path(folder), begun, loads)
    wall_s, cpu_s = time.monotonic() - begun, sum(result.cpu_s for result in results)
    slowness = fmean(loads)
    print(
        f"\n== the lanes ({slowness:.2f} s here are a budget's second: {min(loads):.2f} to {max(loads):.2f})"
    )
    for result in results:
        print(_line(result, slowness))
    tests = sum(result.ran for result in results)
    print(
        f"{'all':8} {tests:5} tests  {wall_s:4.0f} s of {AIM_S} on two cores  {cpu_s:5.0f} processor seconds"
    )
    failed = complaints(results, slowness, whole=not arguments)
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


def _start(
    name: str, folder: Path, arguments: list[str], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.one_lane", name, str(folder / name), *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        # A session of its own: who comes first among processes is decided between sessions before it is within one.
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _ended(
    lanes: dict[str, subprocess.Popen[bytes]], folder: Path, begun: float, loads: list[float]
) -> list[Result]:
    """The results of all lanes, as they end; how far the others are is said now and then, and measured how fast the
    machine is."""
    results: list[Result] = []
    running, said = dict(lanes), time.monotonic()
    try:
        while running:
            time.sleep(0.1)
            for name, process in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                print(f"\n== lane {name}\n{_text(folder / f'{name}.log')}", flush=True)
                results.append(Result.read(folder / name, name, process.returncode))
                print(_line(results[-1], fmean(loads)), flush=True)
            if running and time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                loads.append(load_s())
                how_far = (f"{name} {_percent(folder / f'{name}.log')}" for name in running)
                print(f"after {said - begun:.0f} s: {', '.join(how_far)}", flush=True)
    except BaseException:  # they say what they have before they end
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for name, process in running.items():
            process.wait()
            print(f"\n== lane {name}\n{_text(folder / f'{name}.log')}", flush=True)
        raise
    return results


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()


def _percent(log: Path) -> str:
    """How far pytest is, as it says itself; `0%` before it does."""
    return (re.findall(r"\[ *(\d+%)\]", _text(log)) or ["0%"])[-1]


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


def complaints(results: list[Result], slowness: float, whole: bool) -> list[str]:
    """What went wrong."""
    failed = [f"lane {r.lane} failed" for r in results if r.code not in (0, _NOTHING_CHOSEN)]
    if all(r.code == _NOTHING_CHOSEN for r in results):
        failed.append("no test was chosen")
    if whole:
        failed += _fallen(results)
    if os.environ.get(HOLD) == "1":
        over = [r.lane for r in results if r.cpu_s > BUDGETS[r.lane] * slowness]
        failed += [f"lane {lane} is over its budget" for lane in over]
    return failed


def _fallen(results: list[Result]) -> list[str]:
    """Complaints where the tests that ran are not all that were collected."""
    collected = results[0].collected
    if any(r.collected != collected for r in results) or not collected:
        return ["the lanes did not collect the same tests"]
    counts = {lane: count for lane, count in collected["lanes"].items() if lane != SOAK}
    wrong = [
        f"lane {r.lane} ran {r.ran} of its {counts.get(r.lane, 0)} tests"
        for r in results
        if r.ran != counts.get(r.lane, 0)
    ]
    total, soaks = sum(r.ran for r in results), collected["lanes"].get(SOAK, 0)
    if total + soaks != collected["collected"]:
        wrong.append(f"{collected['collected']} tests were collected, {total} ran and {soaks} are soaks")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
