"""Decoded batches, kept for the next figure: a batch never changes, so its content hash is the key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from engine.telemetry.batch import decode

MAX_BYTES = 96 * 2**20


class EventCache:
    """Events of batches, least recently used first out. Any thread may call it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._events: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()  # not held while a batch is read or decoded

    def events(self, sha256: str, body: Callable[[], bytes]) -> np.ndarray:
        """EVENT rows of the batch with this hash; `body` reads it where it is not known."""
        with self._lock:
            if sha256 in self._events:
                self._events.move_to_end(sha256)
                return self._events[sha256]
        events = decode(body()).table("events")
        with self._lock:
            if sha256 not in self._events:
                self._events[sha256] = events
                self._bytes += events.nbytes
            while self._bytes > self._max_bytes and len(self._events) > 1:
                self._bytes -= self._events.popitem(last=False)[1].nbytes
        return events
