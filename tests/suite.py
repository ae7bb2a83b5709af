"""Runs the suite, lane after lane: `python -m tests.suite [arguments for pytest]`. `make test` is this.

After each lane stand its tests, the time that it took and the processor seconds of all its processes, beside the
budget. A lane over its budget fails where TRAINYARD_HOLD_BUDGETS=1, as in continuous integration. A run without
arguments also proves that no test fell between the lanes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lanes import LANES, LEDGER, SOAK, Lane

HOLD = "TRAINYARD_HOLD_BUDGETS"
_PR_SET_CHILD_SUBREAPER = 36
_LEAVE_S = 20.0
"""How long processes that a lane left may take to end."""
_NOTHING_CHOSEN = 5
"""Exit status of pytest where no test was chosen."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a lane did."""

    lane: Lane
    code: int
    """Exit status of pytest."""
    tests: int
    wall_s: float
    cpu_s: float
    left: list[str]
    """Command lines of processes that were still there when all had ended, and were killed."""

    def line(self) -> str:
        text = (
            f"{self.lane.name:8} {self.tests:5} tests  {self.wall_s:4.0f} s of {self.lane.wall_s:3}"
            f"  {self.cpu_s:5.0f} processor seconds of {self.lane.cpu_s:4}"
        )
        if self.cpu_s > self.lane.cpu_s:
            text += "  OVER ITS BUDGET"
        return text + "".join(f"\n         left behind: {command}" for command in self.left)


def main(arguments: list[str]) -> int:
    """Run all lanes; exit status for the shell."""
    # Whoever loses its parent becomes ours, so that its processor seconds are counted, and nobody is left behind.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    whole = not arguments
    results: list[Result] = []
    collected: dict[str, Any] = {}
    # Light first: they tell soonest. The most expensive come last.
    for lane in reversed(LANES):
        files = collected.get("files", {}).get(lane.name, []) if whole else []
        if collected and whole and not files:
            continue
        result, found = _run(lane, arguments, files)
        collected = collected or found
        results.append(result)
        print(result.line(), flush=True)
        if result.code not in (0, _NOTHING_CHOSEN) and ({"-x", "--exitfirst"} & set(arguments)):
            break
    failed = [f"lane {r.lane.name} failed" for r in results if r.code not in (0, _NOTHING_CHOSEN)]
    if all(r.code == _NOTHING_CHOSEN for r in results):
        failed.append("no test was chosen")
    if whole:
        failed += _fallen(collected, results)
    if os.environ.get(HOLD) == "1":
        failed += [f"lane {r.lane.name} is over its budget" for r in results if r.cpu_s > r.lane.cpu_s]
    print("\n== the lanes")
    for result in results:
        print(result.line())
    wall_s, cpu_s = sum(r.wall_s for r in results), sum(r.cpu_s for r in results)
    print(
        f"{'all':8} {sum(r.tests for r in results):5} tests  {wall_s:4.0f} s  {cpu_s:5.0f} processor seconds"
    )
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


def _fallen(collected: dict[str, Any], results: list[Result]) -> list[str]:
    """Complaints where the tests that ran are not all that were collected."""
    if not collected:
        return ["the first lane collected nothing"]
    counts = {name: count for name, count in collected["lanes"].items() if name != SOAK}
    wrong = [
        f"lane {r.lane.name} ran {r.tests} of its {counts.get(r.lane.name, 0)} tests"
        for r in results
        if r.tests != counts.get(r.lane.name, 0)
    ]
    total, soaks = sum(r.tests for r in results), collected["lanes"].get(SOAK, 0)
    if total + soaks != collected["collected"]:
        wrong.append(f"{collected['collected']} tests were collected, {total} ran and {soaks} are soaks")
    return wrong


def _run(lane: Lane, arguments: list[str], files: list[str]) -> tuple[Result, dict[str, Any]]:
    """One lane in a pytest of its own; what it did, and what it had collected."""
    print(f"\n== lane {lane.name}", flush=True)
    command = [sys.executable, "-m", "pytest", "--lane", lane.name]
    environment = dict(os.environ)
    if lane.side_by_side:
        command += ["-n", str(max(2, min(8, len(os.sched_getaffinity(0))))), "--dist", "loadfile"]
        environment["OMP_NUM_THREADS"] = "1"  # each with a thread per core would fight for the cores
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainyard-lane-") as folder:
        ledger = Path(folder) / "ledger"
        program = subprocess.Popen([*command, *arguments, *files], env=environment | {LEDGER: str(ledger)})
        try:
            code = _reap_until(program.pid)
            program.returncode = code
        except BaseException:  # Ctrl-C reached it, too: it says what it has before it ends
            program.wait(_LEAVE_S)
            raise
        left = _reap_rest()
        ran, found = (_read(f"{ledger}.{part}") for part in ("ran", "collected"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_s = time.monotonic() - begun
    tests = ran.get("ran", 0)
    return Result(lane=lane, code=code, tests=tests, wall_s=wall_s, cpu_s=cpu_s, left=left), found


def _read(path: str) -> dict[str, Any]:
    """What the lane's pytest wrote; nothing where it did not come so far."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _reap_until(pid: int) -> int:
    """Bury whoever ends until this child has; its exit status."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _reap_rest() -> list[str]:
    """Bury the others; whoever does not end is named and killed, as are those that it leaves."""
    deadline = time.monotonic() + _LEAVE_S
    left = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if pid == 0:
            if time.monotonic() > deadline:
                for child in _children():
                    left.append(_command_line(child))
                    os.kill(child, 9)
            time.sleep(0.05)


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _command_line(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return f"process {pid}"
    return line.replace(b"\0", b" ").decode(errors="replace").strip() or f"process {pid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
