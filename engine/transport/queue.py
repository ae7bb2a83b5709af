"""Strict (priority, sequence) order: the one queue discipline of every place where messages wait."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

Item = TypeVar("Item")


class PriorityQueue(Generic[Item]):
    """A heap of items; the smallest priority leaves first, equal priorities in the order of arrival.

    A pure data structure: no thread, no lock, no clock, so that the same code orders a socket's backlog
    and a simulated link. Both operations cost O(log n).
    """

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._sequence = 0

    def push(self, priority: int, item: Item) -> None:
        """Add `item`; smaller `priority` leaves first."""
        heappush(self._heap, (priority, self._sequence, item))
        self._sequence += 1

    def pop(self) -> Item:
        """Remove and return what leaves next. Raises IndexError when empty."""
        return heappop(self._heap)[2]

    def peek(self) -> Item:
        """What leaves next, left in place. Raises IndexError when empty."""
        return self._heap[0][2]

    def next_priority(self) -> int:
        """Priority of what leaves next. Raises IndexError when empty."""
        return self._heap[0][0]

    def clear(self) -> None:
        """Forget everything that waits."""
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._heap)
