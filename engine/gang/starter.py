"""How the fork server ended, which alone knows how the processes that it started ended: without it they all count as
ended, with a status that says nothing."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing import forkserver

UNKNOWN = 255
"""Exit code that multiprocessing gives a process whose fork server is gone. A process may end with it by itself."""
NOTICED_S = 0.5
"""So long after its connections closed it may take until the system says that a process has ended."""
_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True)
class StarterEnd:
    """How it ended."""

    exit_code: int | None
    """Negative: a signal. None where multiprocessing was told, and keeps it to itself."""

    @property
    def text(self) -> str:
        """For people."""
        if self.exit_code is None:
            return "the process that starts workers ended: they ended with it"
        how = "ended" if self.exit_code >= 0 else f"was killed by {signal.Signals(-self.exit_code).name}"
        return f"the process that starts workers {how} (exit code {self.exit_code}): they ended with it"


class Starter:
    """The fork server of one gang."""

    def __init__(self) -> None:
        self._pid: int | None = None

    def note(self) -> None:
        """It has just started a process. From the first one on it is this gang's: multiprocessing starts another one
        where it finds that one dead, and asks how it ended, which nobody can do twice."""
        if self._pid is None:
            self._pid = _running()

    def end(self, wait_s: float = NOTICED_S) -> StarterEnd | None:
        """How it ended; None where it lives, for so long at least."""
        if self._pid is None:
            return None
        deadline = time.monotonic() + wait_s
        while True:
            if _running() != self._pid:
                return StarterEnd(exit_code=None)
            try:  # leaves its status to multiprocessing
                found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return StarterEnd(exit_code=None)
            if found is not None:
                code = found.si_status
                return StarterEnd(exit_code=code if found.si_code == os.CLD_EXITED else -code)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)


def _running() -> int | None:
    """The process id of the fork server that multiprocessing has started last: nothing public names it."""
    found: int | None = getattr(forkserver._forkserver, "_forkserver_pid", None)
    return found
