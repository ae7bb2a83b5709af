"""Remembers every process that ever descended from an attempt's, by looking at /proc again and again: what a program
starts without the attempt's marker is known here also when all whom it descended from are dead."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

from backend.chaos.places import Places
from backend.executors import files, process
from backend.executors.process import Identity

EVERY_S = 0.1


class Lineage:
    """Looks until it is closed, on a thread of its own."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._ever: dict[Path, set[Identity]] = defaultdict(set)
        self._done: set[Path] = set()
        """Attempts of which nothing lives any more."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lineage", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def living(self) -> list[tuple[Path, Identity]]:
        """Every attempt's processes that live now."""
        with self._lock:
            self._look()
            left = {directory: ever for directory, ever in self._ever.items() if directory not in self._done}
        found = [(directory, who) for directory, ever in left.items() for who in ever]
        return [(directory, who) for directory, who in found if process.is_alive(who)]

    def owners(self) -> set[tuple[int, int]]:
        """Process id and start time of everybody who was ever seen."""
        with self._lock:
            return {(who.pid, who.start_ticks) for ever in self._ever.values() for who in ever}

    def _follow(self) -> None:
        while not self._stop.wait(EVERY_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        stats = list(process.all_processes())
        for _, directory in self.places.all():
            if directory in self._done or (first := files.claimed_by(directory)) is None:
                continue
            ever = self._ever[directory] | {first}
            alive = {who.pid for who in ever if process.is_alive(who)}
            self._ever[directory] = ever.union(process.below(alive, stats))
            if not alive:
                self._done.add(directory)
