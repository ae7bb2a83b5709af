"""How busy the processors of a job's machine are, and how much of it is the job: from /proc, as metrics.

The first worker reads, for all of its machine, two sums that grow: time in which the processors that it may use were
not idle, and processor time of the job's own processes, which are those of its session. Both are per processor, so that
over a stretch of time their growth is a share of all processors. A lost sample costs nothing, and whoever reads chooses
the stretch (`definitions.processors_share`). Where the system has no /proc, nothing is recorded.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from engine.telemetry.recorder import Recorder

BUSY = "processor_busy_s"
"""Seconds in which a processor was not idle: the mean over all that the job may use. It counts from any time."""
OWN = "processor_own_s"
"""Seconds of it that the job's own processes took, likewise."""
PROC = Path("/proc")
IDLE_FIELDS = (3, 4)
"""Of a processor's line in /proc/stat: idle, and idle while it waits for a disk."""
KNOWN_FIELDS = 8
"""What follows (guests) is part of the first two already."""
SESSION, PROCESSOR_TIME = 3, (11, 12, 13, 14)
"""Fields of /proc/<pid>/stat behind the name: the session; ticks of the process and of its children that ended."""
BEGINNING_S = 10.0
"""Short jobs are sampled often: in the beginning every `FIRST_S`, then every `LATER_S`."""
FIRST_S, LATER_S = 0.2, 1.0
MEMBERS_S = 3.0
"""Which processes are the job's is looked up so often: it takes a look at every process of the machine."""


def busy_seconds(processors: Collection[int], proc: Path = PROC) -> float | None:
    """Mean time since the machine's start in which one of these `processors` was not idle; None without /proc."""
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return None
    names = {f"cpu{number}" for number in processors}
    busy = []
    for line in lines:
        name, *fields = line.split()
        if name in names:
            ticks = [int(field) for field in fields[:KNOWN_FIELDS]]
            busy.append(sum(ticks) - sum(ticks[field] for field in IDLE_FIELDS))
    return sum(busy) / len(busy) / _ticks() if busy else None


def members(session: int, proc: Path = PROC) -> list[str]:
    """The processes of a session, by their numbers; none without /proc."""
    try:
        entries = [entry.name for entry in proc.iterdir() if entry.name.isdecimal()]
    except OSError:
        return []
    return [
        entry for entry in entries if (fields := _fields(proc, entry)) and int(fields[SESSION]) == session
    ]


def processor_seconds(processes: Collection[str], proc: Path = PROC) -> float | None:
    """Processor time of these processes, and of their children that have ended; None without /proc. One that ends takes
    its own along, unless its parent has waited for it."""
    known = [fields for process in processes if (fields := _fields(proc, process))]
    if not known:
        return None
    return sum(int(fields[field]) for fields in known for field in PROCESSOR_TIME) / _ticks()


def _fields(proc: Path, process: str) -> list[str] | None:
    """What the kernel says of a process, behind its name; None where it has ended."""
    try:
        text = (proc / process / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


class ProcessorSampler:
    """A thread that notes both sums, from construction until `close`."""

    def __init__(self, recorder: Recorder, step: Callable[[], int], *, proc: Path = PROC) -> None:
        """`step` is the one that is being computed: of several samples in one step the last is kept."""
        self._recorder = recorder
        self._step = step
        self._proc = proc
        self._processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._session = os.getsid(0)
        self._members: list[str] = []
        self._looked = -MEMBERS_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="processors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()

    def _loop(self) -> None:
        began = time.monotonic()
        while self._sample():
            young = time.monotonic() - began < BEGINNING_S
            if self._stop.wait(FIRST_S if young else LATER_S):
                self._sample()
                return

    def _sample(self) -> bool:
        """Note both; whether the system says them."""
        if time.monotonic() - self._looked >= MEMBERS_S:
            self._members, self._looked = members(self._session, self._proc), time.monotonic()
        busy = busy_seconds(self._processors, self._proc)
        own = processor_seconds(self._members, self._proc)
        if busy is None or own is None:
            return False
        step = self._step()
        self._recorder.metric(BUSY, step, busy)
        self._recorder.metric(OWN, step, own / len(self._processors))
        return True


def _ticks() -> int:
    """A second's."""
    return os.sysconf("SC_CLK_TCK")
