"""Versions: the forward pass waits for a version of a unit, never for a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from engine.plan.units import Unit

_WATCH_S = 1.0


class Versions:
    """The version of every unit on this worker: how many steps' results it holds."""

    def __init__(self, units: int, deadline_s: float) -> None:
        self._version = [0] * units
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._deadline_s = deadline_s
        self._overdue: Callable[[], str | None] = lambda: None

    def watch(self, overdue: Callable[[], str | None]) -> None:
        """Ask `overdue` while waiting: a shard in this process knows who is missing before its workers give up."""
        self._overdue = overdue

    def advance(self, unit: int, version: int) -> None:
        """`unit` now holds the result of `version` steps. Called by whoever received it."""
        with self._changed:
            self._version[unit] = version
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake every waiter with `error`: what they wait for will not come."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def reached(self, units: Sequence[Unit], version: int) -> bool:
        """Whether all `units` are at least at `version`, without waiting."""
        return all(self._version[unit.index] >= version for unit in units)

    def wait(self, units: Sequence[Unit], version: int, missing: Callable[[Unit], str]) -> Unit:
        """Block until all `units` are at least at `version`; answers the one that came last.

        Raises the failure that ended the exchange, or TimeoutError naming the unit and, by `missing(unit)`, who
        should have sent it.
        """
        end = time.monotonic() + self._deadline_s
        last = units[0]
        with self._changed:
            while True:
                late = next((u for u in units if self._version[u.index] < version), None)
                if late is None:
                    return last
                last = late
                if self._failure is not None:
                    raise self._failure
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(
                        f"version {version} of {late.layers[0]} (unit {late.index}) did not arrive within"
                        f" {self._deadline_s:.0f} s: {missing(late)}"
                    )
                self._changed.wait(min(left, _WATCH_S))
                overdue = self._overdue()
                if overdue is not None:
                    raise TimeoutError(overdue)
