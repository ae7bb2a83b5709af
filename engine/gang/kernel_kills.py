"""Whether the kernel has killed a process for want of memory: SIGKILL by itself may have come from anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


class KernelKills:
    """Those in the cgroup of this process, which the processes that it starts are in, too, since this was made."""

    def __init__(self, cgroup: Path = CGROUP, cgroups: Path = CGROUPS) -> None:
        """Where the kernel says which cgroup this process is in, and where those are."""
        self._where = cgroup, cgroups
        self._before = kills(*self._where)

    def any(self) -> bool:
        """Whether there were any; False where the system does not say."""
        now = kills(*self._where)
        return now is not None and self._before is not None and now > self._before


def kills(cgroup: Path = CGROUP, cgroups: Path = CGROUPS) -> int | None:
    """How many processes of this one's cgroup the kernel has killed for want of memory, by the kernel's own count; None
    where nobody says."""
    for path in _counts(cgroup, cgroups):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdigit():
                return int(count)
    return None


def _counts(cgroup: Path, cgroups: Path) -> Iterator[Path]:
    """Where the count may stand: of the process's own cgroup, or of the whole tree that a container sees."""
    try:
        lines = cgroup.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, own = line.split(":", 2)
        if kinds == "memory":  # version 1
            yield cgroups / "memory" / own.lstrip("/") / "memory.oom_control"
            yield cgroups / "memory" / "memory.oom_control"
        elif not kinds:
            yield cgroups / own.lstrip("/") / "memory.events"
            yield cgroups / "memory.events"
