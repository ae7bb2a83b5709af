"""A clock that jumps from one event to the next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class VirtualClock:
    """What happens at the same time happens in the order in which it was planned."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._planned: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, time_ns: int, happens: Callable[[], None]) -> None:
        """Plan an event, now or later."""
        assert time_ns >= self.now_ns, "the past cannot be planned"
        heappush(self._planned, (time_ns, self._number, happens))
        self._number += 1

    def run(self) -> None:
        """Until nothing is planned any more."""
        while self._planned:
            self.now_ns, _, happens = heappop(self._planned)
            happens()
