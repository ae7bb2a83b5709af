"""The one writer of a server: a thread through which every write transaction goes.

SQLite allows one writer at a time; here there is one by construction, so nobody ever waits for a lock, and
notices get their ids in the order of commits. Several servers of one PostgreSQL take turns (`engine.py`). Do heavy work
(decoding, hashing, building rows) *before* `run`: what is inside holds up everybody else.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from backend.db.models import Notice
from backend.db.trouble import explained

T = TypeVar("T")
Listener = Callable[[list[Notice]], None]

WRITE_TIMEOUT_S = 60.0
MISSED = "missed"
"""Kind of a notice that other servers may have written: it stands for every kind."""
logger = logging.getLogger(__name__)


class WriterError(RuntimeError):
    """The writer is closed, or did not get to a transaction in time."""


class Writer:
    """Runs functions one after another, each in a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self.announce: Callable[[Session, list[Notice]], None] | None = None
        """Called inside of every transaction that wrote notices, at its end: it tells other servers."""
        self._engine = engine
        self._queue: queue.SimpleQueue[tuple[Callable[[Session], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._listeners: list[Listener] = []
        self._afar: list[Listener] = []
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="db-writer", daemon=True)
        self._thread.start()

    def run(self, write: Callable[[Session], T], *, timeout_s: float = WRITE_TIMEOUT_S) -> T:
        """Call `write(session)` in one transaction, commit, and return its result.

        What it raises is raised here and nothing of it is stored; DatabaseUnavailableError where the disk is
        full or another program holds the database. Raises WriterError when the writer is
        closed, or when the transaction has not ended after `timeout_s`; one that had not begun by then never
        runs.
        """
        if threading.current_thread() is self._thread:
            raise WriterError("run was called inside of a write transaction: use the session that is at hand")
        future = self.submit(write)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():  # `write` itself raised a TimeoutError
                raise
            began = not future.cancel()
            state = "is still running and may yet commit" if began else "never began and will not run"
            raise WriterError(
                f"write transaction not done after {timeout_s:g} s; it {state}. Look for a slow transaction "
                "or a full disk under the database"
            ) from None

    def submit(self, write: Callable[[Session], T]) -> Future[T]:
        """Like `run`, without waiting: the future is done after the commit. For code on an event loop."""
        future: Future[T] = Future()
        with self._gate:
            if self._closed:
                raise WriterError("the database writer is closed: the server is shutting down")
            self._queue.put((write, future))
        return future

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(notices)` after every commit that wrote notices; returns the function that ends it.

        It runs on the writer's thread, or on that which hears of other servers: hand over what it needs and return
        (`loop.call_soon_threadsafe`, an Event).
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def listen_afar(self, listener: Listener) -> Callable[[], None]:
        """The same for what other servers commit, of which their notices' kinds and newest ids are known, or nothing
        (MISSED). Those of `listen` hear it, too."""
        self._afar.append(listener)
        return lambda: self._afar.remove(listener)

    def heard(self, notices: list[Notice]) -> None:
        """Other servers have committed these."""
        self._wake([*self._listeners, *self._afar], notices)

    def close(self) -> None:
        """Finish everything that was submitted, then stop."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (item := self._queue.get()) is not None:
            write, future = item
            if not future.set_running_or_notify_cancel():
                continue
            notices: list[Notice] = []
            try:
                with explained(self._engine), Session(self._engine, expire_on_commit=False) as session:
                    session.info[NOTICES] = notices
                    with session.begin():
                        result = write(session)
                        if notices and self.announce is not None:
                            self.announce(session, notices)
            except BaseException as error:  # whatever `write` raised belongs to who asked for it
                future.set_exception(error)
                continue
            future.set_result(result)
            if notices:
                self._wake(list(self._listeners), notices)

    @staticmethod
    def _wake(listeners: list[Listener], notices: list[Notice]) -> None:
        for listener in listeners:
            try:
                listener(notices)
            except Exception:  # one page's broken feed must not stop the writer for everybody
                logger.exception("a listener for notices failed")


NOTICES = "trainyard.notices"


def notify(session: Session, job_id: str | None, kind: str, payload: dict[str, Any]) -> None:
    """Add a notice to the writer's transaction; listeners hear of it after the commit."""
    notice = Notice(job_id=job_id, kind=kind, payload=payload, at_unix_ns=time.time_ns())
    session.add(notice)
    assert NOTICES in session.info, "notify works inside of Writer.run only"
    session.info[NOTICES].append(notice)
