"""Runs one lane in processes of its own, forked from the pytest that has collected all tests (`tests/suite.py`).

The lane's own process watches: it buries whoever ends, counts the processor seconds of all, and kills whoever is left
behind. Below it a copy of that pytest goes on with the tests of this lane, or several, which take one file after
another. Imported and collected is what they need already: that takes as long as hundreds of tests.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.lanes import Lane, Ledger, lane_of

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LEAVE_S = 20.0
"""How long processes that a lane left may take to end."""
LIMIT_S = 3600
"""After this long a lane ends whatever it is doing, and says what that was: a run that continuous integration breaks
off says nothing."""
NOTHING_CHOSEN = 5
"""Exit status of pytest where no test was chosen."""
_NUMBER_BYTES = 2
"""Of a file's number, when files are dealt."""


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

    @classmethod
    def read(cls, folder: Path, lane: str, code: int) -> Result:
        """What the lane wrote; where it wrote nothing, it failed."""
        try:
            return cls(**json.loads((folder / f"{lane}.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls(lane=lane, code=code or 1, wall_s=0, cpu_s=0, left=[], ran=0)


class Part:
    """A pytest of a lane: which tests it runs."""

    def __init__(self, items: list[pytest.Item], dealt: int | None) -> None:
        """`dealt`: where the numbers of files come from that nobody else runs; None: it runs all."""
        self._items = items
        self._dealt = dealt

    def run(self, session: pytest.Session) -> None:
        """As pytest's own loop does."""
        items = iter(self._items) if self._dealt is None else self._as_dealt(self._dealt)
        item = next(items, None)
        while item is not None:
            following = next(items, None)  # what the two share is kept
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following

    def _as_dealt(self, dealt: int) -> Iterator[pytest.Item]:
        files = files_of(self._items)
        while number := os.read(dealt, _NUMBER_BYTES):
            yield from files[int.from_bytes(number)]


def files_of(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The tests of each file, which share what it sets up; parameters may have torn them apart. Files with many tests
    come first, so that whoever takes one of the last is not left alone with it for long."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    return sorted(files.values(), key=len, reverse=True)


def log_of(folder: Path, lane: str, number: int) -> Path:
    """What pytest `number` of a lane says."""
    return folder / f"{lane}-{number}.log"


def begin(lane: Lane, folder: Path, session: pytest.Session) -> int | Part:
    """Fork the lane's process and its pytests: in the process that asks, the id of the lane's; in each of the lane's
    pytests, its part. What they say and did is in `folder`."""
    items = [item for item in session.items if lane_of(item) == lane.name]
    if pid := os.fork():
        return pid
    # A session of its own: who comes first among processes is decided between sessions before it is within one.
    os.setsid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # Whoever loses its parent becomes ours, so that its processor seconds are counted, and nobody is left behind.
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    _be(lane.nice)
    beside = min(lane.at_once, max(2, len(os.sched_getaffinity(0))))
    dealt = _dealt(len(files_of(items))) if beside > 1 else None
    pids = []
    for number in range(beside):
        if not (pid := os.fork()):
            _say_into(log_of(folder, lane.name, number), session.config)
            ledger = session.config.pluginmanager.getplugin("lane-ledger")
            assert isinstance(ledger, Ledger)
            ledger.path = str(folder / f"{lane.name}-{number}")
            # Of those side by side each counts what its own processes use, of the others all that the lane's do.
            if (costs := session.config.pluginmanager.getplugin("costs")) is not None:
                costs.begin(os.getppid() if beside == 1 else os.getpid())
            session.items, session.testscollected = items, len(items)
            return Part(items, dealt)
        pids.append(pid)
    os._exit(_watch(lane, folder, pids))


def _dealt(files: int) -> int:
    """A pipe from which each of so many numbers can be read once."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(_NUMBER_BYTES) for number in range(files)))
    os.close(writing)
    return reading


def _say_into(log: Path, config: pytest.Config) -> None:
    """Whatever this pytest and its processes say goes there."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    os.dup2(file, 1)
    os.dup2(file, 2)
    capture.start_global_capturing()
    capture.suspend_global_capture()
    faulthandler.enable(file)  # what a process was doing that is aborted


def _watch(lane: Lane, folder: Path, pids: list[int]) -> int:
    """Wait for the lane's pytests and what they leave, and write down what the lane did; the exit status."""

    def give_up(*_: object) -> None:
        with log_of(folder, lane.name, 0).open("a", encoding="utf-8") as log:
            log.write(f"lane {lane.name} did not end within {LIMIT_S} s: what each of its tests was doing:\n")
        for pid in pids:
            os.kill(pid, signal.SIGABRT)

    begun = time.monotonic()
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        codes = _reap_until(pids)
    except BaseException:  # they say what they have before they end
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        codes = _reap_until(pids)
    signal.alarm(0)
    left = _reap_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = Result(
        lane=lane.name,
        code=next((code for code in codes if code), 0),
        wall_s=time.monotonic() - begun,
        cpu_s=used.ru_utime + used.ru_stime,
        left=left,
        ran=sum(_ran(folder / f"{lane.name}-{number}.ran") for number in range(len(pids))),
    )
    (folder / f"{lane.name}.json").write_text(json.dumps(asdict(result)), encoding="utf-8")
    return result.code


def _be(nice: int) -> None:
    """Of the processes in a session, and of the session among others, which goes before that (autogroup)."""
    with suppress(PermissionError):
        os.nice(nice)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice), encoding="utf-8")


def _ran(path: Path) -> int:
    """How many tests a pytest ran, as it wrote; none where it did not come so far."""
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["ran"])
    except FileNotFoundError:
        return 0


def _reap_until(pids: list[int]) -> list[int]:
    """Bury whoever ends until all of these children have; their exit statuses."""
    codes: dict[int, int] = {}
    while left := set(pids) - codes.keys():
        try:
            ended, status = os.wait()
        except ChildProcessError:  # they were buried before
            codes |= dict.fromkeys(left, 1)
            break
        if ended in left:
            codes[ended] = os.waitstatus_to_exitcode(status)
    return [codes[pid] for pid in pids]


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
