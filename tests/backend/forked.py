"""What processes that fork for tests, and those who ask them for a fork, share (`forks.py`, `warm.py`)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 1 << 20
"""Of arguments and environment."""
WARM_PROGRAMS = "WARM_PROGRAMS"
"""The environment variable that tells a server where its programs are forked (`warm.py`)."""


class Forked:
    """One that was started; what `subprocess.Popen` is to others."""

    def __init__(self, pid: int, ended: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self._bury()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once it has one. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._bury()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _bury(self) -> None:
        said = self._ended.recv(64)
        assert said, "the process that forks has ended"
        self.returncode = int(said)
        self._ended.close()


def tell_end(way: socket.socket, status: int) -> None:
    """Tell a `Forked` at the other end how its process ended."""
    # Nobody may wait for it any more: who asked has closed the way, or was killed with something unread on it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        way.send(str(os.waitstatus_to_exitcode(status)).encode())


def take_on(arguments: list[str], environment: dict[str, str]) -> None:
    """In a fork: take on the arguments and the environment that were asked for."""
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
