"""How much memory telemetry may take at one time: what a batch needs is set aside before it is read, and before it is
unpacked. A few kilobytes can unpack to a quarter of a gigabyte, and rows of the rollups are larger than their columns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backend.ingest.errors import IngestError
from engine.telemetry import batch as wire

COLUMNS = 3
"""Times the bytes of a table: unpacked, put in order, and copied once (measured: 2.2 to 2.8)."""
ROWS = 15
"""Times the bytes of a table whose rows go into the database one by one, as Python's numbers (measured: 6 to 15)."""
ONLY_COLUMNS = frozenset({"events", "samples"})
JOINED = frozenset({"staleness"})
"""Tables of which many rows may become one."""
BODIES_BYTES = 2**28
"""Of batches as they came, all together."""
UNPACKED_BYTES = 2**30
"""Of batches that are being unpacked and stored, all together."""
MOST_ROWS = 300_000
"""Of the rollups, by one batch: it is stored in one transaction, and all other writers wait for that, 0.6 s for
so many. A party's own batches have less than half (`engine/telemetry/spread.py`)."""


def needed(body: bytes) -> int:
    """Bytes of memory that storing a batch takes beyond itself, from what its header declares. Raises IngestError: 400
    no batch, 413 too many rows."""
    try:
        tables = wire.declared(body)
    except wire.BatchError as error:
        raise IngestError(400, "body", f"{len(body)} bytes", str(error), "Send a whole batch") from None
    # Each makes a row or more. Refused here, they cost neither the seconds that making them takes nor room in memory.
    # How many are left of those that are joined is known when they are unpacked (`accept`).
    limit_rows(
        sum(
            size // wire.TABLES[name].itemsize
            for name, size in tables.items()
            if name not in ONLY_COLUMNS | JOINED
        )
    )
    return len(body) + sum(
        size * (COLUMNS if name in ONLY_COLUMNS else ROWS) for name, size in tables.items()
    )


def limit_rows(rows: int) -> None:
    """Raises IngestError 413 where a batch would make too many."""
    if rows > MOST_ROWS:
        rule = f"a batch may make {MOST_ROWS} rows at most, for which every other writer waits"
        raise IngestError(413, "rows", rows, rule, "Flush more often")


class Room:
    """So many bytes, which who asks first gets first. For one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Wait for `size` bytes, at most the whole room, and hold them while the block runs."""
        size = min(size, self._size)
        await self._take(size)
        try:
            yield
        finally:
            self._free += size
            self._serve()

    async def _take(self, size: int) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, mine))
        self._serve()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was served in the same moment
                self._free += size
            self._serve()
            raise

    def _serve(self) -> None:
        while self._waiting:
            size, future = self._waiting[0]
            if future.done():  # cancelled while it waited
                self._waiting.popleft()
            elif size <= self._free:
                self._waiting.popleft()
                self._free -= size
                future.set_result(None)
            else:
                return
