"""`trainyard` in forks of a process that has loaded it, so that a server starts in a tenth of the time.

What runs is the program itself, from its arguments to its exit status, in a process of its own. Only its imports are
done already: they take two seconds of a core, and tests start many servers. That process is
`python -m tests.backend.forks DESCRIPTOR`; `start` asks it for a fork.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import IO

from tests.backend.forked import MOST_BYTES, ROOT, WARM_PROGRAMS, Forked, take_on, tell_end

_lock = threading.Lock()
_control: list[socket.socket] = []
"""The way to the process that forks, once there is one."""


def start(arguments: list[str], environment: dict[str, str], stdout: IO[str], stderr: IO[str]) -> Forked:
    """`trainyard` with these arguments, this environment and these outputs."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked = json.dumps({"arguments": arguments, "environment": environment}).encode()
    assert len(asked) < MOST_BYTES
    descriptors = array.array("i", [theirs.fileno(), stdout.fileno(), stderr.fileno()])
    with _lock:
        if not _control:
            _control.append(_begin())
        _control[0].sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    theirs.close()
    return Forked(int(mine.recv(64)), mine)


def _begin() -> socket.socket:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    command = [sys.executable, "-m", "tests.backend.forks", str(theirs.fileno())]
    program = subprocess.Popen(command, cwd=ROOT, env=kept, pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        mine.close()
        program.wait()

    atexit.register(end)
    return mine


def _serve(control: socket.socket) -> None:
    """In the process that forks: until whoever asks has ended. Returns in every fork, as what was asked for."""
    gc.disable()  # nothing of what is loaded is garbage
    _load()
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end
    running: dict[int, socket.socket] = {}
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
        if not asked:
            for pid in list(running):
                os.kill(pid, signal.SIGTERM)
            sys.exit()
        ended, *outputs = descriptors
        pid = os.fork()
        if pid == 0:
            for others in (control, *running.values()):
                others.close()
            os.close(ended)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for descriptor, mine in zip(outputs, (1, 2), strict=True):
                os.dup2(descriptor, mine)
                os.close(descriptor)
            from tests.backend import warm, warm_drawing  # noqa: PLC0415 - who draws imports this module, too

            take_on(**json.loads(asked))
            warm_drawing.use()
            if WARM_PROGRAMS in os.environ:
                warm.use()
            return
        for descriptor in outputs:
            os.close(descriptor)
        running[pid] = socket.socket(fileno=ended)
        running[pid].send(str(pid).encode())
        threading.Thread(target=_bury, args=(pid, running), daemon=True).start()


def _load() -> None:
    """Everything that a server imports until it answers."""
    import sqlite3  # noqa: F401, PLC0415

    import alembic.command  # noqa: F401, PLC0415
    import uvicorn.protocols.http.h11_impl  # noqa: F401, PLC0415

    import backend.cli.main  # noqa: F401, PLC0415
    from backend.app import create_app  # noqa: PLC0415
    from backend.server import Server  # noqa: F401, PLC0415
    from tests.backend import warm_drawing  # noqa: PLC0415

    warm_drawing.begin()
    create_app()
    gc.collect()
    gc.freeze()  # forks leave it alone, so that they share it


def _bury(pid: int, running: dict[int, socket.socket]) -> None:
    _, status = os.waitpid(pid, 0)
    with running.pop(pid) as way:
        tell_end(way, status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from backend.cli.main import app

    app(prog_name="trainyard")
