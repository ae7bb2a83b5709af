"""Programs in forks of a process that has loaded what they import, PyTorch above all: the supervisors that a server
starts, with their gangs, and the processes that describe models. A job of a test starts in a tenth of the time.

What runs are the programs themselves, in as many processes as ever. Only their imports are done already: they take
three seconds of a core, and a test's job computes for less than one. `LiveServer(..., warm_jobs=True)` starts a server
that starts them so; tests of supervisors and of gangs leave it. Applications in the tests' own process describe models
so (`conftest.py`), but where the process that describes is the subject.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import fcntl
import gc
import json
import multiprocessing.forkserver
import multiprocessing.util
import os
import runpy
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from backend.executors import local, watchdog
from tests.backend.forked import MOST_BYTES, ROOT, WARM_PROGRAMS, Forked, take_on, tell_end

LOADED = (
    "backend.executors.supervisor",
    "backend.services.describer",
    "engine.gang.preload",
    "engine.models.describe",
)
"""What forks need not load."""
_starting = threading.Lock()
_MOST_PASSED = 16
_ABOVE = 100
"""Where descriptors wait for their numbers: nobody passes one on with a number as high."""


class Program(Forked):
    """What `subprocess.Popen` is for `python -m MODULE`, with what the server asks of it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: os.PathLike[str],
        stdin: IO[bytes] | int,
        stdout: IO[bytes] | int,
        stderr: IO[bytes] | int,
        start_new_session: bool,
        pass_fds: Sequence[int] = (),
    ) -> None:
        assert start_new_session, "each of them has one"
        module, *arguments = command[command.index("-m") + 1 :]
        asked = {"module": module, "arguments": arguments, "environment": dict(env), "directory": str(cwd)}
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        way = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        way.connect(f"\0{env.get(WARM_PROGRAMS) or address()}")
        with contextlib.ExitStack() as mine:
            passed = [mine.enter_context(open(os.devnull, "rb")) if stdin == subprocess.DEVNULL else stdin]  # noqa: PTH123
            for name, given in (("stdout", stdout), ("stderr", stderr)):
                if given == subprocess.PIPE:
                    reading, given = os.pipe()  # noqa: PLW2901
                    setattr(self, name, os.fdopen(reading, "rb", 0))
                    mine.callback(os.close, given)
                passed.append(given)
            descriptors = [each if isinstance(each, int) else each.fileno() for each in (*passed, *pass_fds)]
            asked["numbers"] = [0, 1, 2, *pass_fds]
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
            way.sendmsg([json.dumps(asked).encode()], [rights])
            super().__init__(int(way.recv(64)), way)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()


def run(
    command: Sequence[str], *, input: str, stdout: int, text: bool, check: bool
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` is, with what the terminal asks of it."""
    assert (stdout, text, check) == (subprocess.PIPE, True, False)
    with tempfile.TemporaryFile() as given:
        given.write(input.encode())
        given.seek(0)
        with Program(
            command,
            env=os.environ,
            cwd=Path.cwd(),
            stdin=given,
            stdout=stdout,
            stderr=2,
            start_new_session=True,
        ) as program:
            assert program.stdout is not None
            said = program.stdout.read().decode()
            return subprocess.CompletedProcess(command, program.wait(), said)


PROGRAMS = SimpleNamespace(
    Popen=Program,
    run=run,
    PIPE=subprocess.PIPE,
    DEVNULL=subprocess.DEVNULL,
    TimeoutExpired=subprocess.TimeoutExpired,
)
"""What stands for the module `subprocess` where these programs are started."""


def use() -> None:
    """In a server: start these programs so."""
    from backend.services import describing  # noqa: PLC0415 - the process that forks does without

    for module in (local, describing):
        module.subprocess = PROGRAMS  # type: ignore[attr-defined]


def address() -> str:
    """Where programs are forked, until this process ends. Returns when all is loaded: a busy machine takes longer for
    that than tests wait for a program."""
    with _starting:
        return _start()


@cache
def _start() -> str:
    name = f"trainyard-warm-{secrets.token_hex(8)}"
    lifeline, mine = os.pipe()
    loaded, loading = os.pipe()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        program = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "tests.backend.warm",
                *map(str, (listener.fileno(), lifeline, loading)),
            ],
            env=kept | dict.fromkeys(local.THREAD_VARIABLES, "1") | {"PYTHONPATH": str(ROOT)},
            pass_fds=[listener.fileno(), lifeline, loading],
            stdin=subprocess.DEVNULL,
        )
    for theirs in (lifeline, loading):
        os.close(theirs)
    os.read(loaded, 1)  # it closes the other end
    os.close(loaded)

    def end() -> None:
        os.close(mine)
        program.wait()

    atexit.register(end)
    return name


def _serve(listener: socket.socket, lifeline: int, loading: int) -> str:
    """In the process that forks: until the other end of `lifeline` closes. Returns in every fork: the module to run."""
    for name in LOADED:
        import_module(name)
    gc.freeze()  # forks leave it alone, so that they share it
    os.close(loading)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        for descriptor in (listener.fileno(), lifeline):
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == lifeline:
                    sys.exit()
                if key.fd != listener.fileno():
                    selector.unregister(key.fd)
                    _bury(key.fd, *running.pop(key.fd))
                    continue
                way, _ = listener.accept()
                asked, given, _, _ = socket.recv_fds(way, MOST_BYTES, _MOST_PASSED)
                if (pid := os.fork()) == 0:
                    for other in (listener, way, *(each for _, each in running.values())):
                        other.close()
                    for descriptor in (lifeline, *running):
                        os.close(descriptor)
                    selector.close()
                    return _become(json.loads(asked), given)
                for descriptor in given:
                    os.close(descriptor)
                watched = os.pidfd_open(pid)
                selector.register(watched, selectors.EVENT_READ)
                running[watched] = pid, way
                with contextlib.suppress(BrokenPipeError):  # the server was killed meanwhile
                    way.send(str(pid).encode())


def _bury(watched: int, pid: int, way: socket.socket) -> None:
    os.close(watched)
    with way:
        tell_end(way, os.waitpid(pid, 0)[1])


def _become(asked: dict[str, Any], given: Sequence[int]) -> str:
    """In a fork: be what a server asked for. Answers the module to run."""
    os.setsid()
    os.chdir(asked["directory"])
    waiting = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for descriptor in given]
    for descriptor in given:
        os.close(descriptor)
    for descriptor, number in zip(waiting, asked["numbers"], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    take_on(asked["arguments"], asked["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None  # each attempt has its own
    multiprocessing.util.spawnv_passfds = _fork
    module: str = asked["module"]
    return module


def _fork(_path: str, arguments: Sequence[str], passed: Sequence[int]) -> int:
    """In place of a fresh Python with `-c PROGRAM` and these descriptors: its process id."""
    if pid := os.fork():
        return pid
    return _run(arguments[-1], {0, 1, 2, *passed})


def _run(program: str, kept: set[int]) -> NoReturn:
    code = 1
    try:
        for number in (*watchdog.ENDING, watchdog.LOST):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - kept:  # noqa: PTH208
            with contextlib.suppress(OSError):  # the one with which the list was read
                os.close(descriptor)
        multiprocessing.forkserver._forkserver._lock = threading.Lock()  # whoever forked holds the other one
        exec(program, {})
        code = 0
    except SystemExit:  # how a fork server ends
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    runpy.run_module(
        _serve(socket.socket(fileno=int(sys.argv[1])), *map(int, sys.argv[2:])),
        run_name="__main__",
        alter_sys=True,
    )
