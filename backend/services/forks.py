"""Processes that describe models, as forks of one that has loaded what they need: PyTorch takes seconds to load, and a
description a tenth of one.

The server starts that process in the background (`forker.py`); it describes nothing itself. Each fork is a process of
its own, in a session of its own, with the same limits and the same people to look after it as one that is started anew
(`describing.py`). Where there is none, because it is switched off or was killed, processes are started anew, and
another one is loaded meanwhile. It is also replaced where what it has loaded has changed since.
"""

from __future__ import annotations

import array
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from backend.executors import process
from backend.executors.environment import inherited
from backend.services import forker
from backend.services.asker import Asker

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
_ANSWER_S = 10.0
"""How long it may take to fork, at most,"""
_LEAST_S = 0.001
"""and at least: 0 would be not to wait."""
_ATTEMPTS = 3
"""To load one, before each description starts a process anew: something is wrong here, until `code` changes."""
_OFF = (
    "the process that loads PyTorch for descriptions ended %d times before it was ready. Each description starts a "
    "process anew from now on, which takes seconds, until the engine's code or the installed PyTorch changes. Why it "
    "ended is above, on the server's standard error"
)
_END_S = 5.0
"""How long it may take to end, and to clean up behind a fork."""


class Fork:
    """One process that was forked; what `subprocess.Popen` is to others. Its number stays its own until the block
    ends."""

    def __init__(
        self, pid: int, way: socket.socket, stdout: int, stderr: int, done: Callable[[bool], None]
    ) -> None:
        """`way`: to who has forked it. `done` is called when nothing of it is left, or when nobody says so in time:
        with whether they did."""
        self.pid = pid
        self.returncode = -signal.SIGKILL
        """Until it is known, and where who has forked it was killed meanwhile."""
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", 0)
        self.stderr: IO[bytes] = os.fdopen(stderr, "rb", 0)
        self._way = way
        self._done = done
        self._ended = False

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        buried = True
        with self._way:
            try:
                self._way.shutdown(socket.SHUT_WR)  # now it is buried, with all that it has left
                self._way.settimeout(_END_S)
                while self._way.recv(64):
                    pass
            except TimeoutError:
                buried = False
            except OSError:  # who has forked it is gone
                pass
        self._done(buried)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once it has ended; the same one each time. Raises TimeoutExpired."""
        if self._ended:
            return self.returncode
        if not select.select([self._way], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        if said := self._way.recv(64):
            self.returncode = int(said)
        self._ended = True
        return self.returncode


class _Forker:
    """One process that forks, and the way to it."""

    def __init__(self, directory: Path, code: Hashable) -> None:
        """`directory`: of the sources. `code`: what it loads."""
        self.code = code
        self.ready = self.gone = False
        self._forks = 0
        self._retired = False
        self._lock = threading.Lock()
        self._marker = Path("/describing", uuid.uuid4().hex)
        environment = {
            **inherited(),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            process.MARKER: str(self._marker),
        }
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.program = subprocess.Popen(
                [sys.executable, "-m", forker.__name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                cwd=directory,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )

    def look(self) -> None:
        """Whether it is ready by now, or gone."""
        with self._lock:
            if not self.gone and select.select([self.control], [], [], 0)[0]:
                if self.control.recv(64):
                    self.ready = True
                else:
                    self.gone = True

    def fork(
        self, asked: Mapping[str, object], descriptors: Sequence[int], deadline: float
    ) -> tuple[int, socket.socket] | None:
        """The process id of a fork and the way to it; None where this process is gone, or says nothing in time."""
        way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rights = array.array("i", [theirs.fileno(), *descriptors])
        try:
            with theirs, self._lock:
                self._forks += 1
                self.control.sendmsg(
                    [forker.written(asked)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
            way.settimeout(max(_LEAST_S, min(_ANSWER_S, deadline - time.monotonic())))
            if said := way.recv(64):
                way.settimeout(None)
                return int(said), way
        except TimeoutError:
            self.gone = True  # somebody has stopped it
        except OSError:
            pass
        way.close()
        self.look()
        self.left()
        return None

    def left(self, buried: bool = True) -> None:
        """A fork has gone. Where nobody buries it, somebody has stopped this process, which is then used no more."""
        with self._lock:
            self._forks -= 1
            self.gone |= not buried
            last = self._retired and not self._forks
        if last:
            self.close()

    def retire(self) -> None:
        """End it when it has no forks any more: another one is used from now on."""
        with self._lock:
            self._retired = True
            last = not self._forks
        if last:
            self.close()

    def close(self) -> None:
        """End it, and all that it has started, also where it was killed."""
        with self._lock:
            self.gone = True
            self.control.close()
        try:
            self.program.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()
        process.kill_marked(self._marker)


class Forks:
    """Forks processes that describe; safe to call from many threads."""

    def __init__(self, directory: Path, code: Callable[[], Hashable]) -> None:
        """`directory`: of the sources. `code()`: the state of what the process loads. Returns while it does."""
        self._directory = directory
        self._code = code
        self._lock = threading.Lock()
        self._closed = False
        self._unready = 0
        """So many have ended one after the other while they loaded."""
        self._forker = _Forker(directory, code())

    @property
    def pid(self) -> int:
        """Of the process that forks at the moment."""
        return self._forker.program.pid

    def started(
        self,
        module: str,
        memory_bytes: int,
        lifeline: int,
        environment: Mapping[str, str],
        given: IO[bytes],
        deadline: float,
        asker: Asker | None,
    ) -> Fork | None:
        """`backend.services.describer` with these arguments, environment and standard input. None where it has to be
        started anew. Raises TimeoutError where the deadline passes meanwhile, and Left."""
        forks = self._current()
        if forks is None or not self._loaded(forks, deadline, asker):
            return None
        asked = {"arguments": [str(memory_bytes), module], "environment": dict(environment)}
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        try:
            found = forks.fork(asked, [given.fileno(), stdout, stderr, lifeline], deadline)
        finally:
            os.close(stdout)
            os.close(stderr)
        if found is None:
            os.close(out)
            os.close(err)
            self._current()  # for the next one
            if time.monotonic() > deadline:
                raise TimeoutError
            return None
        return Fork(*found, out, err, forks.left)

    def close(self) -> None:
        """The server ends."""
        with self._lock:
            self._closed = True
            self._forker.close()

    def _current(self) -> _Forker | None:
        """The process that forks; another one where that has gone, or has loaded what is not there any more."""
        code = self._code()
        with self._lock:
            found = self._forker
            found.look()
            if found.ready or found.code != code:
                self._unready = 0
            elif found.gone and self._unready < _ATTEMPTS:
                self._unready += 1
                if self._unready == _ATTEMPTS:
                    logger.warning(_OFF, _ATTEMPTS)
            if self._closed or self._unready == _ATTEMPTS:
                return None
            if found.gone or found.code != code:
                threading.Thread(target=found.retire, name="end forker", daemon=True).start()
                self._forker = _Forker(self._directory, code)
            return self._forker

    def _loaded(self, forks: _Forker, deadline: float, asker: Asker | None) -> bool:
        """Wait until it is; False where it is gone. To wait takes less than to start another one beside it."""
        while not forks.ready and not forks.gone:
            watched: list[Any] = [forks.control, *([] if asker is None else [asker])]
            with suppress(OSError, ValueError):  # it is closed meanwhile
                select.select(watched, [], [], max(0.0, min(_LOOK_S, deadline - time.monotonic())))
            if asker is not None:
                asker.check()
            if time.monotonic() > deadline:
                raise TimeoutError
            forks.look()
        return forks.ready and not forks.gone
