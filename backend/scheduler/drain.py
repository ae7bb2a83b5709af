"""Telemetry that an attempt left in its spool: sent by the server itself, once the supervisor is gone.

It happens when the supervisor was killed, or when the server was away for too long while the attempt ended.
The batches take the ordinary way, over the server's own address, with the attempt's own token. What cannot be
sent now (a full disk under the database) is tried again later.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque

from backend.executors.attempt_files import DRAINS_AT_ONCE, AttemptFiles, FilesAwayError

TIMEOUT_S = 60.0
"""How long about one spool waits for a machine that does not answer."""
AGAIN_S = 60.0
logger = logging.getLogger(__name__)


class Drain:
    """Empties spools, several at once: a machine that answers slowly holds up no other's."""

    def __init__(self, url: str) -> None:
        """`url` is this server's address."""
        self._url = url
        self._queue: queue.SimpleQueue[tuple[float, AttemptFiles]] = queue.SimpleQueue()
        """Each with the moment before which it is not tried."""
        self._room = threading.Semaphore(DRAINS_AT_ONCE)
        self._thread = threading.Thread(target=self._loop, name="spool-drain", daemon=True)
        self._thread.start()

    def add(self, files: AttemptFiles) -> None:
        """Send what is left in this attempt's spool, and seal the attempt. Returns at once."""
        self._queue.put((0.0, files))

    def _loop(self) -> None:
        later: deque[tuple[float, AttemptFiles]] = deque()
        while True:
            try:
                due, files = self._queue.get(
                    timeout=max(0.0, later[0][0] - time.monotonic()) if later else None
                )
            except queue.Empty:
                due, files = later.popleft()
            if due > time.monotonic():
                later.append((due, files))
                continue
            self._room.acquire()
            threading.Thread(target=self._one, args=(files,), name="spool-sender", daemon=True).start()

    def _one(self, files: AttemptFiles) -> None:
        try:
            done = self._drain(files)
        except Exception:  # what one attempt's files hold must not keep the others' telemetry
            logger.exception("the spool of %s cannot be sent", files.directory)
            done = True
        finally:
            self._room.release()
        if not done:
            self._queue.put((time.monotonic() + AGAIN_S, files))

    def _drain(self, files: AttemptFiles) -> bool:
        """Whether there is nothing left to try."""
        try:
            outcome = files.drain(self._url, TIMEOUT_S)
        except FilesAwayError as error:
            logger.warning("telemetry stays in a spool: %s. It is tried again in %g s", error, AGAIN_S)
            return False
        if outcome is None:
            return True  # it was never launched, or its directory is gone
        if not outcome.sealed:
            logger.warning(
                "telemetry in %s stays in its spool: %s. %s",
                files.directory,
                outcome.problem,
                "It is not tried again" if outcome.refused else f"It is tried again in {AGAIN_S:g} s",
            )
        return outcome.sealed or outcome.refused
