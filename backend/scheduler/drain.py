"""Telemetry that an attempt left in its spool: sent by the server itself, once the supervisor is gone.

It happens when the supervisor was killed, or when the server was away for too long while the attempt ended.
The batches take the ordinary way, over the server's own address, with the attempt's own token.
"""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from backend.executors import files
from engine.telemetry.uploader import Uploader

TIMEOUT_S = 60.0
logger = logging.getLogger(__name__)


class Drain:
    """Empties spools one after another, on a thread of its own."""

    def __init__(self, url: str) -> None:
        """`url` is this server's address."""
        self._url = url
        self._queue: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="spool-drain", daemon=True)
        self._thread.start()

    def add(self, directory: Path) -> None:
        """Send what is left in this attempt's spool, and seal the attempt. Returns at once."""
        self._queue.put(directory)

    def _loop(self) -> None:
        while True:
            directory = self._queue.get()
            try:
                self._drain(directory)
            except Exception:  # what one attempt's files hold must not keep the others' telemetry
                logger.exception("the spool of %s cannot be sent", directory)

    def _drain(self, directory: Path) -> None:
        ingest = files.read_ingest(directory)
        if ingest is None:
            return  # it was never launched
        uploader = Uploader(directory / "spool", self._url, ingest.token, attempt=ingest.attempt)
        outcome = uploader.finish(timeout_s=TIMEOUT_S)
        if not outcome.sealed:
            logger.warning(
                "telemetry of attempt %d stays in its spool until the server starts again: %s",
                ingest.attempt,
                outcome.problem,
            )
