"""Who can be killed now, and killing them."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backend.executors import files, process
from backend.executors.process import Identity

GONE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A process of an attempt."""

    role: Literal["worker", "supervisor"]
    directory: Path
    """The attempt's."""
    identity: Identity


def supervisors(data_dir: Path) -> list[Victim]:
    """Living supervisors, oldest attempt first."""
    found = []
    for directory in sorted(data_dir.glob("jobs/*/*")):
        who = files.claimed_by(directory)
        if who is not None and process.is_alive(who):
            found.append(Victim(role="supervisor", directory=directory, identity=who))
    return found


def workers(data_dir: Path) -> list[Victim]:
    """Living processes of gangs (workers, servers, reducers): what a supervisor's fork server forked."""
    stats = list(process.all_processes())
    found = []
    for supervisor in supervisors(data_dir):
        forkers = {s.pid for s in stats if s.parent == supervisor.identity.pid and _is_fork_server(s.pid)}
        for stat in stats:
            if stat.parent in forkers and (who := process.identity(stat.pid)) is not None:
                found.append(Victim(role="worker", directory=supervisor.directory, identity=who))
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
