"""Runs one lane in a pytest of its own: `python -m tests.one_lane LANE RESULT [arguments for pytest]`.

Into the file RESULT go the tests that ran, the time that passed, the processor seconds of all processes, whoever was
left behind (and killed), and what was collected. `tests/suite.py` starts one of these for each lane.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.lanes import LANES, LEDGER

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LEAVE_S = 20.0
"""How long processes that a lane left may take to end."""
LIMIT_S = 3600
"""After this long a lane ends whatever it is doing, and says what that was: a run that continuous integration breaks
off says nothing."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a lane did."""

    lane: str
    code: int
    """Exit status of pytest."""
    wall_s: float
    cpu_s: float
    left: list[str]
    """Command lines of processes that were still there when all had ended, and were killed."""
    ran: int
    """Tests."""
    collected: dict[str, Any]
    """As `tests/lanes.py` writes it; empty where pytest did not come so far."""

    @classmethod
    def read(cls, path: Path, lane: str, code: int) -> Result:
        """What the process wrote; where it wrote nothing, it failed."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls(lane=lane, code=code or 1, wall_s=0, cpu_s=0, left=[], ran=0, collected={})


def main(name: str, path: str, arguments: list[str]) -> int:
    """Run the lane; pytest's exit status."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # Whoever loses its parent becomes ours, so that its processor seconds are counted, and nobody is left behind.
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    lane = next(lane for lane in LANES if lane.name == name)
    command = [sys.executable, "-m", "pytest", "--lane", name]
    # Threads of one process that wait for one another, on processors that others use, too, do nothing but wait.
    environment = dict(os.environ) | {LEDGER: path, "OMP_NUM_THREADS": "1"}
    _be(lane.nice)
    if lane.side_by_side:
        command += ["-n", str(max(2, min(8, len(os.sched_getaffinity(0))))), "--dist", "loadfile"]
    begun = time.monotonic()
    program = subprocess.Popen([*command, *arguments], env=environment)

    def give_up(*_: object) -> None:
        print(f"lane {name} did not end within {LIMIT_S} s: what each of its tests was doing:", flush=True)
        # Pytest's fault handler prints the stacks of a process that is aborted, of those side by side, too.
        for pid in (*_children_of(program.pid), program.pid) if lane.side_by_side else (program.pid,):
            os.kill(pid, signal.SIGABRT)

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    try:
        code = _reap_until(program.pid)
        program.returncode = code
    except BaseException:  # it says what it has before it ends
        program.send_signal(signal.SIGINT)
        program.wait(_LEAVE_S)
        raise
    signal.alarm(0)
    left = _reap_rest()
    wall_s, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    ran = _read(f"{path}.ran").get("ran", 0)
    result = Result(
        lane=name,
        code=code,
        wall_s=wall_s,
        cpu_s=cpu_s,
        left=left,
        ran=ran,
        collected=_read(f"{path}.collected"),
    )
    Path(path).write_text(json.dumps(asdict(result)), encoding="utf-8")
    return code


def _be(nice: int) -> None:
    """Of the processes in a session, and of the session among others, which goes before that (autogroup)."""
    with suppress(PermissionError):
        os.nice(nice)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice), encoding="utf-8")


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
    """Bury the others; whoever does not end is named and killed, as are those that it leaves. Whoever cannot be killed
    (it waits in the kernel) is left."""
    begun = time.monotonic()
    left: list[str] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if pid == 0:
            late_s = time.monotonic() - begun - _LEAVE_S
            if late_s > _LEAVE_S:
                return left
            if late_s > 0:
                for child in _children_of(os.getpid()):
                    if (line := _command_line(child)) not in left:
                        left.append(line)
                    os.kill(child, 9)
            time.sleep(0.05)


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _command_line(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return f"process {pid}"
    return line.replace(b"\0", b" ").decode(errors="replace").strip() or f"process {pid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
