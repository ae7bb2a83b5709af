"""Names that say whose they are: `trainyard-<run>-<pid>.<start>.<view>-<part>`; what a dead owner left is removed.

<pid> and <start> (clock ticks since boot, field 22 of /proc/<pid>/stat) tell a process apart from a later one
with the same number. <view> is the PID namespace that has this number: who lives in another one, as in a container, may
see the same network namespaces, but not their owners, and must not take these for dead. The name is all there is:
nothing else could be lost or be half written.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.lab import namespace
from engine.lab.namespace import LabError

PREFIX = "trainyard"
_NAME = re.compile(rf"^{PREFIX}-.+-(\d+)\.(\d+)(?:\.(\d+))?-(sw|h\d+)$")
"""Earlier versions' have no view."""
_MOST_CHARACTERS = 100


def stem(run: str) -> str:
    """The names of `run`'s namespaces begin with it: the run as far as it can be written, and its owner, us."""
    written = re.sub(r"[^A-Za-z0-9_.]+", "-", run).strip("-.")[:_MOST_CHARACTERS] or "run"
    return f"{PREFIX}-{written}-{os.getpid()}.{_start_ticks(os.getpid())}.{_view()}"


def sweep() -> list[str]:
    """Remove the labs whose owner is dead and in which nobody lives any more; answers what it removed.

    Called before a lab is built and when a server starts. Never raises: what cannot be removed is left for the
    next sweep."""
    labs: dict[str, list[str]] = defaultdict(list)
    owners: dict[str, tuple[int, int]] = {}
    for name, owner in owned():
        lab = name.rpartition("-")[0]
        labs[lab].append(name)
        owners[lab] = owner
    dead = [lab for lab, (pid, start) in owners.items() if _start_ticks(pid) != start]
    removed = []
    for lab in dead:
        if not namespace.inhabited(labs[lab]):
            with contextlib.suppress(LabError):
                remove(labs[lab])
                removed += labs[lab]
    return removed


def owned() -> Iterator[tuple[str, tuple[int, int]]]:
    """Every namespace of a lab whose owner would be seen here, and the owner: process id and start time in clock
    ticks."""
    view = str(_view())
    for name in namespace.names():
        if (match := _NAME.match(name)) and match[3] in (None, view):
            yield name, (int(match[1]), int(match[2]))


def remove(names: list[str]) -> None:
    """Delete namespaces with all that is in them; those that are gone already are no error. Raises LabError
    where one stays."""
    with contextlib.suppress(LabError):
        namespace.batch("ip", [f"netns delete {name}" for name in names], force=True)
    left = sorted(set(names) & set(namespace.names()))
    if left:
        raise LabError(f"network namespaces could not be removed: {', '.join(left)}")


def _view() -> int:
    """The PID namespace in which we have our process id."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_ticks(pid: int) -> int | None:
    """None where the process is gone; a zombie is."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name in parentheses may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
