"""A process that has loaded what describing a model needs, and forks itself for each description (`forks.py`):

    python -m backend.services.forker DESCRIPTOR

Requests come by a socket, with the descriptors that a fork is to have, and the answers' way among them; it ends when
the other end closes. It has one thread, so that a fork has all that it needs. What a fork leaves behind becomes its
child, and is ended before the fork's number is given up.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from backend.executors import process

LOADED = ("torch", "torch._dynamo", "backend.executors.watchdog", "engine.models.describe")
"""The first operation without values would load the second one."""
READS_SOURCES = "engine.instrumentation.unwatched"
MOST_BYTES = 2**20
"""Of a request: an environment."""
_DESCRIPTORS = 5
"""The way, standard input, output and error, and the lifeline."""
_READY = b"ready"
_END_S, _POLL_S = 5.0, 0.01
"""How long what a fork has left may take to end."""


def written(asked: Mapping[str, object]) -> bytes:
    """A request."""
    return json.dumps(asked).encode()


@dataclass(frozen=True)
class _Running:
    pid: int
    way: socket.socket


def serve(control: socket.socket) -> None:
    """Until the other end closes. Returns in every fork, which is to be what was asked for then."""
    _load(control)
    running: dict[int, _Running] = {}
    """By descriptor: of the process while it runs, of its way when it has ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is control:
                    asked, given = _asked(control)
                    if not asked:
                        process.kill_descendants()
                        os._exit(0)
                    if (pid := os.fork()) == 0:
                        control.close()
                        for descriptor, each in running.items():
                            each.way.close()
                            with suppress(OSError):
                                os.close(descriptor)
                        selector.close()
                        _become(json.loads(asked), given)
                        return
                    way = socket.socket(fileno=given[0])
                    for descriptor in given[1:]:
                        os.close(descriptor)
                    watched = os.pidfd_open(pid)
                    running[watched] = _Running(pid, way)
                    selector.register(watched, selectors.EVENT_READ)
                    with suppress(ConnectionError):
                        way.send(str(pid).encode())
                    continue
                selector.unregister(key.fileobj)
                each = running.pop(key.fd)
                if key.fd == each.way.fileno():  # nobody asks about it any more
                    _bury(each, {other.pid for other in running.values()})
                    continue
                os.close(key.fd)
                end = os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
                assert end is not None, "a call that waits answers"
                code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                with suppress(ConnectionError):
                    each.way.send(str(code).encode())
                running[each.way.fileno()] = each
                selector.register(each.way, selectors.EVENT_READ)


def _load(control: socket.socket) -> None:
    """What describing needs, and say that it is there. Ends this process where the other end has closed meanwhile."""
    _end_while_loading(control, True)
    closed, _, _ = select.select([control], [], [], 0)
    if closed:  # already, of which the kernel says nothing any more
        os._exit(0)
    process.become_subreaper()
    gc.disable()  # nothing of what follows is garbage: looking for it takes a third as long again
    for name in LOADED:
        import_module(name)
    # Which code asks for a parameter's class is found in the sources of what has been imported, once in each process.
    import_module(READS_SOURCES).why_unwatched(import_module("torch").nn.Parameter)
    _end_while_loading(control, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # forks leave it alone, so that they share it
    gc.enable()
    try:
        control.send(_READY)
    except ConnectionError:  # to return would be to be a fork that nobody has asked for
        os._exit(0)


def _asked(control: socket.socket) -> tuple[bytes, Sequence[int]]:
    """A request, and the descriptors that come with it; nothing where the other end has closed."""
    try:
        asked, given, _, _ = socket.recv_fds(control, MOST_BYTES, _DESCRIPTORS)
    except ConnectionResetError:  # before it had read that this process is ready
        return b"", []
    return asked, given


def _end_while_loading(control: socket.socket, whether: bool) -> None:
    """While it loads, nobody looks whether the other end has closed: the kernel then sends SIGIO, which ends it."""
    flags = fcntl.fcntl(control, fcntl.F_GETFL)
    fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(control, fcntl.F_SETFL, flags | os.O_ASYNC if whether else flags & ~os.O_ASYNC)


def _bury(ended: _Running, others: set[int]) -> None:
    """Give its number up, and end what it has left to us."""
    os.waitpid(ended.pid, 0)
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        found = list(process.all_processes())
        for child in found:
            if child.parent == os.getpid() and child.pid not in others and child.state in "ZX":
                os.waitpid(child.pid, 0)
        theirs = {each.pid for each in process.below(others, found)} | others
        left = [each for each in process.below({os.getpid()}, found) if each.pid not in theirs]
        if not left:
            break
        for each in left:
            process.send(each, signal.SIGKILL)
        time.sleep(_POLL_S)  # for the kernel to take them down
    ended.way.close()


def _become(asked: Mapping[str, Any], given: Sequence[int]) -> None:
    """In a fork: take on what was asked for."""
    way, *pipes, lifeline = given
    os.close(way)
    os.setsid()
    for number, descriptor in enumerate(pipes):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = [str(lifeline), *asked["arguments"]]
    os.environ.clear()
    os.environ.update(asked["environment"])
    # As in a process that starts anew; Python's own is seeded in each fork.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("backend.services.describer", run_name="__main__", alter_sys=True)
