"""The message on the wire: one fixed header, a small variable part, then the payload as it lies in memory.

A message may travel in fragments, so that a more urgent one need not wait for its end: between two fragments another
message may come, whole or interrupted itself, and then a short header says that the one interrupted last goes on. The
sender chooses each fragment's length, and the header before it tells. A message without fragments costs one header.

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
"""First byte of a new message."""
_CONTINUES = 0x7B
"""First byte of a header before the rest of the message that was interrupted last."""
_WIRE = struct.Struct("<BBBxHHIIIiiqQII")
_FRAGMENT = struct.Struct("<H")
_FRAGMENT_AT = 6
_GRANT_AT = 3
_GRANT_UNIT = 1024
FRAGMENT_UNIT = 1024
"""Fragments are counted in so many bytes; a last one may be shorter."""
_LARGEST_FRAGMENT = 0xFFFF * FRAGMENT_UNIT
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
    version: int = 0
    """Of the unit: the one that a contribution was computed on, or that an answer is of."""
    meta: bytes = b""
    """A small variable part (presence masks, JSON); counted as overhead, never as payload."""

    def encode(self) -> bytes:
        """Header and meta as they travel. Raises ProtocolError for a field outside its range."""
        try:
            fixed = _WIRE.pack(
                MAGIC, self.kind, self.lane, self.origin, 0, self.step, self.unit, self.part, self.layer,
                self.priority, self.queued_ns, self.payload_bytes, self.version, len(self.meta),
            )  # fmt: skip
        except struct.error as error:
            raise ProtocolError(f"{self} does not fit the wire format: {error}") from error
        return fixed + self.meta if self.meta else fixed

    @property
    def wire_bytes(self) -> int:
        """Everything that this message puts on the wire: header, meta and payload."""
        return HEADER_BYTES + len(self.meta) + self.payload_bytes


class Start(NamedTuple):
    """A header that begins a message."""

    header: Header
    """Without its meta."""
    meta_bytes: int
    """Size of the meta that follows."""
    fragment_bytes: int
    """How much of the payload follows before the next header."""


def granted(fixed: Buffer) -> int:
    """The credit that comes with a header, in bytes: for the opposite direction of the same two parties. A sender may
    give it so instead of in a control frame, where it has something to send anyway."""
    return int(fixed[_GRANT_AT]) * _GRANT_UNIT


def decode(fixed: Buffer) -> Start | int:
    """What the header in `fixed` (HEADER_BYTES long) begins: a message, or as many bytes of the one that was
    interrupted last.

    Raises ProtocolError where this is no header.
    """
    magic, kind, lane, origin, fragment, *others, meta = _WIRE.unpack(fixed)
    if magic == _CONTINUES:
        return int(fragment) * FRAGMENT_UNIT
    if magic != MAGIC:
        raise ProtocolError(f"a message starts with byte {magic:#x}, not {MAGIC:#x}: out of step")
    if meta > META_LIMIT_BYTES:
        raise ProtocolError(f"meta of {meta} bytes, at most {META_LIMIT_BYTES} are allowed")
    header = Header(kind, origin, lane, *others)
    return Start(header, meta, fragment * FRAGMENT_UNIT or header.payload_bytes)


class Outgoing:
    """One message that waits to be sent, or is being sent: views of the caller's memory, never copies."""

    __slots__ = (
        "_frame",
        "_index",
        "_offset",
        "fragment_left",
        "frame",
        "header",
        "on_sent",
        "payload_left",
        "run_bytes",
        "start_ns",
        "views",
    )  # fmt: skip

    def __init__(
        self, header: Header, payload: Sequence[Buffer], on_sent: Callable[[], None] | None = None
    ) -> None:
        """Raises ProtocolError where the views do not add up to the header's `payload_bytes`."""
        views = [view for buffer in payload if len(view := memoryview(buffer).cast("B"))]
        total = sum(map(len, views))
        if total != header.payload_bytes:
            raise ProtocolError(f"{header} announces {header.payload_bytes} bytes, its views hold {total}")
        self.header = header
        self.views = views
        self.on_sent = on_sent
        self.start_ns = -1
        self.run_bytes = 0
        """Payload that has left since it began, or went on after an interruption."""
        self.payload_left = self.fragment_left = total
        self.frame = header.encode()
        """Header and meta as they travel, before any of them has left."""
        self._frame = memoryview(self.frame)
        self._index = 0
        self._offset = 0

    @property
    def left_bytes(self) -> int:
        """What has not been given to the kernel yet; headers between fragments do not count."""
        return len(self._frame) + self.payload_left

    @property
    def start_bytes(self) -> int:
        """What the message or its first fragment puts on the wire, before any of it has left."""
        return len(self._frame) + self.fragment_left

    @property
    def interruptible_now(self) -> bool:
        """Whether a fragment has left whole and the message goes on."""
        return self.fragment_left == 0 < self.payload_left

    def cut(self, fragment_bytes: int) -> None:
        """Before the first byte leaves: let its first fragment be at most about so long."""
        if self.payload_left > fragment_bytes:
            frame = bytearray(self._frame)
            self.fragment_left = _fragment(fragment_bytes, frame)
            self._frame = memoryview(frame)

    def go_on(self, fragment_bytes: int) -> None:
        """After a fragment: begin the next one."""
        frame = bytearray(HEADER_BYTES)
        frame[0] = _CONTINUES
        rest = -(-self.payload_left // FRAGMENT_UNIT) * FRAGMENT_UNIT
        self.fragment_left = min(_fragment(min(fragment_bytes, rest), frame), self.payload_left)
        self._frame = memoryview(frame)

    def next_views(self, limit_bytes: int, limit_views: int = 64) -> list[memoryview]:
        """The next bytes to send, at most `limit_bytes` of them and none beyond the fragment, for one gathering
        write."""
        views = [self._frame[:limit_bytes]] if self._frame else []
        room = min(limit_bytes - len(self._frame), self.fragment_left)
        for index in range(self._index, min(len(self.views), self._index + limit_views)):
            if room <= 0:
                break
            view = self.views[index]
            if index == self._index and self._offset:
                view = view[self._offset :]
            views.append(view[:room] if len(view) > room else view)
            room -= len(view)
        return views

    def advance(self, count: int) -> int:
        """Account for `count` bytes taken by the kernel; answers how many of them were payload."""
        overhead = min(count, len(self._frame))
        self._frame = self._frame[overhead:]
        payload = count - overhead
        self.payload_left -= payload
        self.run_bytes += payload
        self.fragment_left -= payload
        self._offset += payload
        while self._index < len(self.views) and self._offset >= len(self.views[self._index]):
            self._offset -= len(self.views[self._index])
            self._index += 1
        return payload


def _fragment(wanted_bytes: int, frame: bytearray) -> int:
    """Write the fragment's length into its header; answers it."""
    units = max(min(wanted_bytes, _LARGEST_FRAGMENT) // FRAGMENT_UNIT, 1)
    _FRAGMENT.pack_into(frame, _FRAGMENT_AT, units)
    return units * FRAGMENT_UNIT
