"""Who can be killed now, and killing them."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backend.chaos.places import Places
from backend.executors import files, process
from backend.executors.process import Identity

GONE_S = 10.0
Role = Literal["worker", "supervisor", "watchdog", "fork server"]


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A process of an attempt."""

    role: Role
    directory: Path
    """The attempt's."""
    identity: Identity


def of_role(places: Places, role: Role) -> list[Victim]:
    """Living processes of that role, oldest attempt first. Workers are all processes of gangs (workers, servers,
    reducers): what a fork server forked."""
    stats = list(process.all_processes())
    found = []
    for attempt, directory in places.all():
        watchdog = files.claimed_by(directory)
        if watchdog is None or not process.is_alive(watchdog):
            continue
        supervisors = {s.pid for s in stats if s.parent == watchdog.pid}
        fork_servers = {s.pid for s in stats if s.parent in supervisors and _is_fork_server(s.pid)}
        workers = {s.pid for s in stats if s.parent in fork_servers}
        of: dict[Role, set[int]] = {
            "watchdog": {watchdog.pid},
            "supervisor": supervisors,
            "fork server": fork_servers,
            "worker": workers,
        }
        who = [identity for pid in sorted(of[role]) if (identity := process.identity(pid)) is not None]
        found += [Victim(role=role, directory=attempt, identity=each) for each in who]
    return found


def kill(victim: Victim) -> bool:
    """kill -9, and wait until it is gone. False: it had ended before."""
    if not process.send(victim.identity, signal.SIGKILL):
        return False
    deadline = time.monotonic() + GONE_S
    while process.is_alive(victim.identity):
        if time.monotonic() > deadline:
            raise RuntimeError(f"process {victim.identity.pid} is still there {GONE_S:g} s after kill -9")
        time.sleep(0.005)
    return True


def _is_fork_server(pid: int) -> bool:
    try:
        return b"multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
