"""The message on the wire: one fixed header, a small variable part, then the payload as it lies in memory.

The transport reads `lane`, `priority` and the sizes; everything else is carried for the runtime and for
telemetry. The payload is never converted: both sides are little-endian hosts that agreed on its layout.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.transport.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

MAGIC = 0x7A
_WIRE = struct.Struct("<BBBxHxxIIIiiqQI")
HEADER_BYTES = _WIRE.size
META_LIMIT_BYTES = 1 << 24


class Header(NamedTuple):
    """What one message is, to whom in the receiving process it goes, and how urgent it is. A tuple, because one is
    made for every slice: half the time of a frozen dataclass."""

    kind: int
    """Meaning is the runtime's; 0 to 255."""
    origin: int
    """Number of the party that sends it."""
    lane: int = 0
    """Which receive queue of the destination process (0 worker, 1 server); 0 to 255."""
    step: int = 0
    """Training step that it belongs to."""
    unit: int = 0
    """Unit (layer, slice or bucket) of the plan."""
    part: int = 0
    """Part of the unit: a shard, or a round of a ring."""
    layer: int = -1
    """Layer whose bytes these are, for the counters; -1: none."""
    priority: int = 0
    """Smaller leaves first, in every queue on the way; the runtime copies it to the answer."""
    queued_ns: int = 0
    """When it was queued, on the attempt's clock."""
    payload_bytes: int = 0
    """Size of the payload."""
    meta: bytes = b""
    """A small variable part (presence masks, JSON); counted as overhead, never as payload."""

    def encode(self) -> bytes:
        """Header and meta as they travel. Raises ProtocolError for a field outside its range."""
        try:
            fixed = _WIRE.pack(
                MAGIC, self.kind, self.lane, self.origin, self.step, self.unit, self.part, self.layer,
                self.priority, self.queued_ns, self.payload_bytes, len(self.meta),
            )  # fmt: skip
        except struct.error as error:
            raise ProtocolError(f"{self} does not fit the wire format: {error}") from error
        return fixed + self.meta if self.meta else fixed

    @property
    def wire_bytes(self) -> int:
        """Everything that this message puts on the wire: header, meta and payload."""
        return HEADER_BYTES + len(self.meta) + self.payload_bytes


def decode(fixed: Buffer) -> tuple[Header, int]:
    """The header in `fixed` (HEADER_BYTES long), and the size of the meta that follows it, which it lacks.

    Raises ProtocolError where this is no header.
    """
    magic, kind, lane, origin, *others, meta = _WIRE.unpack(fixed)
    if magic != MAGIC:
        raise ProtocolError(f"a message starts with byte {magic:#x}, not {MAGIC:#x}: out of step")
    if meta > META_LIMIT_BYTES:
        raise ProtocolError(f"meta of {meta} bytes, at most {META_LIMIT_BYTES} are allowed")
    return Header(kind, origin, lane, *others), meta


class Outgoing:
    """One message that waits to be sent, or is being sent: views of the caller's memory, never copies."""

    __slots__ = ("done_bytes", "header", "index", "offset", "on_sent", "overhead_bytes", "parts", "start_ns")

    def __init__(
        self, header: Header, payload: Sequence[Buffer], on_sent: Callable[[], None] | None = None
    ) -> None:
        """Raises ProtocolError where the views do not add up to the header's `payload_bytes`."""
        views = [memoryview(buffer).cast("B") for buffer in payload]
        total = sum(map(len, views))
        if total != header.payload_bytes:
            raise ProtocolError(f"{header} announces {header.payload_bytes} bytes, its views hold {total}")
        prefix = header.encode()
        self.header = header
        self.parts = [memoryview(prefix), *(view for view in views if len(view))]
        self.overhead_bytes = len(prefix)
        self.on_sent = on_sent
        self.start_ns = -1
        self.index = 0
        self.offset = 0
        self.done_bytes = 0

    @property
    def left_bytes(self) -> int:
        """What has not been given to the kernel yet."""
        return self.overhead_bytes + self.header.payload_bytes - self.done_bytes

    def next_views(self, limit_bytes: int, limit_views: int = 64) -> list[memoryview]:
        """The next bytes to send, at most `limit_bytes` of them, for one gathering write."""
        views = []
        for index in range(self.index, min(len(self.parts), self.index + limit_views)):
            view = self.parts[index]
            if index == self.index and self.offset:
                view = view[self.offset :]
            if len(view) >= limit_bytes:
                views.append(view[:limit_bytes])
                break
            limit_bytes -= len(view)
            views.append(view)
        return views

    def advance(self, count: int) -> int:
        """Account for `count` bytes taken by the kernel; answers how many of them were payload."""
        before = max(self.done_bytes - self.overhead_bytes, 0)
        self.done_bytes += count
        self.offset += count
        while self.index < len(self.parts) and self.offset >= len(self.parts[self.index]):
            self.offset -= len(self.parts[self.index])
            self.index += 1
        return max(self.done_bytes - self.overhead_bytes, 0) - before
