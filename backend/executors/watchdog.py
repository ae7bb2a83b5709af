"""Ends an attempt's processes when its supervisor is killed: `python -m backend.executors.watchdog DIR FD`.

A killed supervisor can do nothing more, and the server may be down: so one small process waits for the end of
a pipe that only the supervisor holds. When the supervisor ends in order, it ends this one too, like any other
of its descendants. A parent-death signal would not do: it does not reach grandchildren.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from backend.executors import process


def start(directory: Path) -> None:
    """Watch over the calling process, from now until it ends."""
    mine, _held = os.pipe()  # nobody inherits the other end, and nobody closes it but the kernel
    subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(directory), str(mine)],
        pass_fds=[mine],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(mine)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the pipe counts
    os.read(int(sys.argv[2]), 1)  # nothing is ever written: this returns when the supervisor is gone
    process.kill_marked(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
