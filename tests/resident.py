"""Worker processes that take launch after launch, for tests whose subject is what a job computes.

A fresh gang forks a process for every party of every launch; most of what that costs is the process. Residents stay:
each takes a party of one launch, by the same way as any process of a gang (`engine.gang.process.take_part`), then
one of the next. Who fails, hangs or is killed in a launch has ended, as in a fresh gang, and another one takes its
place.

    residents = Residents()
    gang = residents.gang(launch)      # an engine.gang.gang.Gang: start, wait, stop, the same GangEnd
    gang.start()
    try:
        end = gang.wait(120)
    finally:
        gang.stop()

`tests.jobs.run` does that. Take a fresh gang (`tests.jobs.run_fresh`) where processes are the subject: their failure,
logs, memory, processor time, environment, or hosts of a lab, which a process cannot leave.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import connection, current_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from engine.gang.gang import FORKED, Gang
from engine.gang.process import obey, redirect, take_part
from engine.launch import Launch
from engine.plan.cluster import Party
from tests.modules import forget_modules

RENEWED_AFTER = 100
"""Launches. Each freezes what it has (`engine/runtime/worker.py`), so that cycles of it stay in memory for ever."""
TELL = signal.SIGUSR1
"""Who gets this signal writes where its threads are into its log."""
_THREADS_END_S = 2.0
_END_S = 5.0


class Residents:
    """Idle processes, and more of them as they are needed. Not safe for use by several threads."""

    def __init__(self) -> None:
        self._idle: list[_Resident] = []
        self._paths = list(sys.path)
        """A process takes over what stands here while it starts: by then a test may have described a user's model."""
        self.forked = 0
        """How many processes have been started."""
        atexit.register(self.close)

    def gang(self, launch: Launch, address: str | None = None) -> Gang:
        """A gang (at `address`) for a launch that is written, of residents; they come back when it has ended."""
        if launch.job.network.hosts is not None:
            raise ValueError("a process cannot leave the host of a lab: take a fresh gang")
        return _ResidentGang(launch, self, address)

    def take(self) -> _Resident:
        """One that waits for a launch; who does not come back is forgotten."""
        while self._idle:
            resident = self._idle.pop()
            if resident.waits:
                return resident
        self.forked += 1
        return _Resident(self._paths)

    def bring(self, resident: _Resident) -> None:
        """Take back one whose part has ended."""
        if resident.waits:
            self._idle.append(resident)

    @property
    def pids(self) -> set[int]:
        """Process ids of those that wait."""
        return {resident.pid for resident in self._idle if resident.pid is not None}

    def close(self) -> None:
        """End those that wait."""
        for resident in self._idle:
            resident.leave()
        self._idle.clear()


class _ResidentGang(Gang):
    """Its processes outlive it, where they have ended their part well."""

    def __init__(self, launch: Launch, residents: Residents, address: str | None) -> None:
        super().__init__(launch, address)
        self._residents = residents

    def _spawn(self, party: Party) -> BaseProcess:
        resident = self._residents.take()
        resident.begin(self._launch.directory, party.index)
        return cast(BaseProcess, resident)

    def _close(self) -> None:
        super()._close()
        for _, resident in self._processes:
            self._residents.bring(cast(_Resident, resident))


class _Resident:
    """One process, with what a gang asks of it: it seems to have ended when it has ended its part."""

    def __init__(self, paths: list[str]) -> None:
        """`paths`: what `sys.path` is between two parts."""
        lifeline, self._lifeline = FORKED.Pipe(duplex=False)
        self._pipe, theirs = FORKED.Pipe()
        """Readable when the part, or the process, has ended, until that is known here."""
        self._process = FORKED.Process(
            target=_serve, args=(theirs, lifeline, paths), name="resident", daemon=False
        )
        self._process.start()
        lifeline.close()
        theirs.close()
        self._ended, closed = FORKED.Pipe(duplex=False)
        """Always readable, since its other end is closed. Each has its own: nobody can wait for one twice at once."""
        closed.close()
        self._waiting = True
        self._code: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it can take a part."""
        return self._waiting and not self._pipe.poll()  # readable here: it has left

    @property
    def sentinel(self) -> Connection:
        """Readable from the end of the part on, whoever has looked before, as a process's own sentinel is."""
        return self._pipe if self._code is None else self._ended

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """Of its part: None while it has one."""
        if self._code is None and self._pipe.poll():
            try:
                self._waiting = self._pipe.recv()
                self._code = 0
            except (EOFError, ConnectionError):
                self._process.join()
                self._code = self._process.exitcode
        return self._code

    def begin(self, directory: Path, index: int) -> None:
        """Be party `index` of the launch in `directory`."""
        self._waiting, self._code = False, None
        with suppress(ConnectionError):  # it is gone: its exit code says so
            self._pipe.send((directory, index))

    def join(self, timeout_s: float | None = None) -> None:
        if self.exitcode is None:
            connection.wait([self.sentinel], timeout_s)

    def terminate(self) -> None:
        if self.exitcode is None:
            self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def leave(self) -> None:
        """End, having no part."""
        self._pipe.close()
        self._process.join(_END_S)
        self._process.kill()
        self._lifeline.close()


def _serve(requests: Connection, lifeline: Connection, paths: list[str]) -> None:
    """A resident's life: a part, a word that it has ended (and whether another one may come), the next part."""
    obey(lifeline)
    faulthandler.register(TELL)
    sys.path[:] = paths
    threads = set(threading.enumerate())
    for left in range(RENEWED_AFTER - 1, -1, -1):
        try:
            directory, index = requests.recv()
        except EOFError:
            break
        launch = Launch.read(directory)
        current_process().name = launch.parties[index].name
        redirect(launch.log(launch.parties[index]))
        take_part(launch, index)
        forget_modules(paths)
        _forget_shares()
        stays = left > 0 and _ended(threads)
        requests.send(stays)
        if not stays:
            break
    os._exit(0)  # whatever still runs here belongs to no launch any more


def _forget_shares() -> None:
    """PyTorch remembers how large a process's share of a tensor is, by the mesh and not by the rank. In the next launch
    the process may have another rank."""
    if "torch.distributed.tensor" in sys.modules:
        from torch.distributed.tensor import debug  # noqa: PLC0415

        debug._clear_sharding_prop_cache()


def _ended(before: set[threading.Thread]) -> bool:
    """Whether all threads of the launch have ended, or do so in a moment."""
    deadline = time.monotonic() + _THREADS_END_S
    while left := set(threading.enumerate()) - before:
        if time.monotonic() > deadline:
            print(f"leaving: still there are {sorted(thread.name for thread in left)}", flush=True)
            return False
        time.sleep(0.001)
    return True
