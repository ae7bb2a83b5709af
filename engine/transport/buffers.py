"""Page-aligned scratch memory for payloads that have no place of their own; kept for the next message."""

from __future__ import annotations

from mmap import PAGESIZE, mmap
from threading import Lock


class ScratchPool:
    """Buffers in powers of two from one page up; at most `keep_bytes` are kept while unused.

    Anonymous maps rather than bytearrays: aligned for vector sums, and not cleared by Python before use.
    """

    def __init__(self, keep_bytes: int = 256 * 2**20) -> None:
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._free: dict[int, list[memoryview]] = {}
        self._lock = Lock()

    def take(self, size_bytes: int) -> memoryview:
        """A writable buffer of at least `size_bytes`; give it back whole with `give`."""
        capacity = max(PAGESIZE, 1 << (size_bytes - 1).bit_length())
        with self._lock:
            free = self._free.get(capacity)
            if free:
                self._kept_bytes -= capacity
                return free.pop()
        return memoryview(mmap(-1, capacity))

    def give(self, buffer: memoryview) -> None:
        """Give back what `take` answered; no view of it may be used afterwards."""
        capacity = len(buffer)
        with self._lock:
            if self._kept_bytes + capacity <= self._keep_bytes:
                self._kept_bytes += capacity
                self._free.setdefault(capacity, []).append(buffer)
