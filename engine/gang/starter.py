"""How the fork server ended, which alone knows how the processes that it started ended: without it they all count as
ended, with a status that says nothing."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import forkserver

UNKNOWN = 255
"""Exit code that multiprocessing gives a process whose fork server is gone. A process may end with it by itself."""
_NOTICED_S = 0.5
"""So long after its connections closed it may take until the system says that a process has ended."""
_POLL_S = 0.01


def starters_end() -> tuple[int, str] | None:
    """The fork server's exit code (negative: a signal) and what happened to it, for people; None where it lives, or
    somebody else was told."""
    # Nothing public names it; `waitid` leaves its status to multiprocessing, which asks before it starts another.
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    deadline = time.monotonic() + _NOTICED_S
    while pid is not None:
        try:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if found is not None and found.si_code == os.CLD_EXITED:
            return found.si_status, "ended"
        if found is not None:
            return -found.si_status, f"was killed by {signal.Signals(found.si_status).name}"
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
    return None
