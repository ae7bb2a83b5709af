"""Processes that draw figures, in forks of one that has loaded what draws: a second of a processor for each server that
a test starts, or application that it makes, and shows one figure.

What runs is what a server runs (`backend/services/drawing.py`), in as many processes as ever. Only its imports are done
already. Servers that are forked do so (`forks.py`), and applications in the tests' own process (`conftest.py`), but not
in the tests of these processes themselves.
"""

from __future__ import annotations

import io
import os
from multiprocessing import forkserver, popen_forkserver, process, reduction, resource_tracker, spawn, util
from multiprocessing.context import BaseContext, set_spawning_popen

from backend.services import drawing

LOADED = "tests.backend.loaded_drawing"


class _Server(forkserver.ForkServer):
    """Forks them, for this process and for those that it forks."""

    def ensure_running(self) -> None:
        """As Python's own, which looks whether it still runs: a server that was forked is not its parent."""
        if self._forkserver_pid is None:
            super().ensure_running()


_server = _Server()
_server.set_forkserver_preload([LOADED])


class _Popen(popen_forkserver.Popen):
    """As Python's own, which knows one fork server for a program: that of gangs."""

    def _launch(self, process_obj: process.BaseProcess) -> None:
        written = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(spawn.get_preparation_data(process_obj.name), written)
            reduction.dump(process_obj, written)
        finally:
            set_spawning_popen(None)
        self.sentinel, way = _server.connect_to_new_process(self._fds)
        self.finalizer = util.Finalize(self, util.close_fds, (os.dup(way), self.sentinel))
        with open(way, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(written.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class _Process(process.BaseProcess):
    _start_method = "forkserver"

    @staticmethod
    def _Popen(process_obj: process.BaseProcess) -> _Popen:  # noqa: N802 - Python's name
        return _Popen(process_obj)


class _Context(BaseContext):
    _name = "forkserver"
    Process = _Process


CONTEXT = _Context()


def begin() -> None:
    """Have what draws loaded meanwhile, in a process that forks servers."""
    _server.ensure_running()


def use() -> None:
    """In a server: draw so, with a tracker of its own, as every program has."""
    drawing.get_context = lambda _: CONTEXT  # type: ignore[assignment,misc]
    tracker = resource_tracker._resource_tracker
    if tracker._fd is not None:
        os.close(tracker._fd)
    tracker._fd = tracker._pid = None
