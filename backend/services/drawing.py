"""Figures are drawn in processes of their own.

Drawing holds the interpreter for a tenth of a second and more, again and again while somebody looks on. In the
server's own process telemetry would wait for it, and so would every other request.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from backend.db.engine import open_engine
from backend.db.trouble import explained
from backend.services.errors import Busy

P = ParamSpec("P")
T = TypeVar("T")
LIMIT_S = 120.0


class Drawing:
    """A few processes that read the database and draw; they start with the first figure, or when somebody comes who is
    going to ask for one."""

    def __init__(self, url: str, processes: int) -> None:
        """`url` is the database's."""
        self._url = url
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def make_ready(self) -> None:
        """Start the processes, so that the first figure need not wait a second and more for their imports. Returns at
        once; without effect where they run."""
        with self._lock:
            if self._pool is not None:
                return
        pool = self._running()
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile
            for _ in range(self._processes):
                pool.submit(_nothing)

    def run(self, draw: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`draw(session, ...)`, a function of a module, with a session that only reads. Raises what it raises, and
        Busy where it takes too long or its process dies again and again."""
        for _ in range(2):  # one that was killed, as by a lack of memory, is replaced
            pool = self._running()
            try:
                drawn = pool.submit(_draw, draw, args, kwargs)
            except RuntimeError:  # it broke, or was dropped by somebody who noticed
                self._drop(pool)
                continue
            try:
                return drawn.result(LIMIT_S)
            except BrokenProcessPool:
                self._drop(pool)
            except TimeoutError:
                break
        raise Busy("the figure could not be drawn in time. Ask for fewer steps", retry_after_s=5)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    self._processes,
                    mp_context=get_context("spawn"),  # a fork would copy the threads' locks
                    initializer=_begin,
                    initargs=(self._url,),
                )
            return self._pool

    def _drop(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is broken:
                self._pool = None
        broken.shutdown(wait=False)


_opened: list[Engine] = []
"""The drawing process's own way to the database."""


def _begin(url: str) -> None:
    """In the new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    threading.Thread(target=_end_with_the_server, name="lifeline", daemon=True).start()
    _opened.append(open_engine(url, readonly=True, pool_size=1))
    import_module("backend.figures.answers")  # what is drawn would import it
    gc.collect()
    gc.freeze()  # what is here stays: to look at it again takes half as long as a figure


def _nothing() -> None:
    """Makes a process start."""


def _end_with_the_server() -> None:
    server = parent_process()
    assert server is not None
    connection.wait([server.sentinel])
    os._exit(0)


def _draw(draw: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]) -> T:
    with explained(_opened[0]), Session(_opened[0], autoflush=False, expire_on_commit=False) as session:
        return draw(session, *args, **kwargs)
