"""How stale the contributions were that a server's shards, or a worker of its peers', have applied: counted, not kept
one by one.

An asynchronous job applies thousands of contributions in a second. They differ in little, and nobody asks for a single
one: what is asked is how many of a worker's, to a layer, in a while, were so and so stale. So each costs one addition,
and a batch has one row for those that are alike.
"""

from __future__ import annotations

import threading

import numpy as np

from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, STALENESS, STALENESS_LEVEL

WIDE_NS = BIN_NS * LEVEL_FACTOR**STALENESS_LEVEL


class StalenessCounts:
    """Counts since the last `take`. Any thread may call it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int, int, int], int] = {}
        self._lock = threading.Lock()

    def count(self, layer: int, worker: int, staleness: int, at_ns: int) -> None:
        """A worker's contribution to a layer was applied at `at_ns`, `staleness` updates late."""
        key = (at_ns // WIDE_NS, layer, worker, staleness)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1

    def take(self) -> np.ndarray:
        """STALENESS rows, by bin, layer, worker and staleness."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return np.array([(*key, counts[key]) for key in sorted(counts)], STALENESS)
