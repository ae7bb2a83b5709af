"""Versions: the forward pass waits for a version of a unit, never for a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from engine.plan.units import Unit

_WATCH_S = 1.0


class Versions:
    """The version of every unit on this worker: how many steps' results it holds.

    Any thread may advance; one thread, the training one, waits, and is woken when the last unit that it waits for
    has come, not at each of perhaps thousands of slices.
    """

    def __init__(self, units: int, deadline_s: float) -> None:
        self._version = [0] * units
        self._changed = threading.Condition()
        self._needed = 0
        self._awaited: dict[int, Unit] = {}
        """By index: the units that the waiting thread still lacks in version `_needed`."""
        self._last = 0
        self._failure: BaseException | None = None
        self._deadline_s = deadline_s
        self._overdue: Callable[[], str | None] = lambda: None
        self._going_s: Callable[[], float] = lambda: 0.0

    def while_going(self, last_s: Callable[[], float]) -> None:
        """Wait for as long as somebody makes progress: the deadline counts from `last_s()`, when that was last heard,
        on the monotonic clock."""
        self._going_s = last_s

    def watch(self, overdue: Callable[[], str | None]) -> None:
        """Ask `overdue` while waiting: a shard in this process knows who is missing before its workers give up."""
        self._overdue = overdue

    def begin_at(self, version: int) -> None:
        """Before anybody advances or waits: this worker holds the result of so many steps already."""
        self._version = [version] * len(self._version)

    def advance(self, unit: int, version: int) -> None:
        """`unit` now holds the result of `version` steps. Called by whoever received it; of two threads, the one with
        the earlier version may come last, and changes nothing."""
        with self._changed:
            self._version[unit] = max(version, self._version[unit])
            if version >= self._needed and self._awaited.pop(unit, None) is not None:
                self._last = unit
                if not self._awaited:
                    self._changed.notify()

    def fail(self, error: BaseException) -> None:
        """Wake the waiting thread with `error`: what it waits for will not come."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify()

    def reached(self, units: Sequence[Unit], version: int) -> bool:
        """Whether all `units` are at least at `version`, without waiting."""
        return all(self._version[unit.index] >= version for unit in units)

    def wait(self, units: Sequence[Unit], version: int, missing: Callable[[Unit], str]) -> int:
        """Block until all `units` are at least at `version`; answers the index of the one that came last.

        Raises the failure that ended the exchange, or TimeoutError naming the unit and, by `missing(unit)`, who
        should have sent it.
        """
        began_s = time.monotonic()
        with self._changed:
            self._needed, self._last = version, units[0].index
            self._awaited = {u.index: u for u in units if self._version[u.index] < version}
            while self._awaited:
                if self._failure is not None:
                    raise self._failure
                left = max(began_s, self._going_s()) + self._deadline_s - time.monotonic()
                if left <= 0:
                    late = next(iter(self._awaited.values()))
                    raise TimeoutError(
                        f"version {version} of {late.layers[0]} (unit {late.index}) did not arrive within"
                        f" {self._deadline_s:.0f} s: {missing(late)}"
                    )
                if not self._changed.wait(min(left, _WATCH_S)):
                    overdue = self._overdue()
                    if overdue is not None:
                        raise TimeoutError(overdue)
            return self._last
