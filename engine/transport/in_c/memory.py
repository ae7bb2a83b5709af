"""Memory that the data plane in C reads and writes: addresses of views, and where a message's payload belongs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np

from engine.transport.errors import ProtocolError
from engine.transport.lane import LaneQueue
from engine.transport.message import Header

_PAIR = struct.Struct("<QQ")
_byte_at = ctypes.c_char.from_buffer


def _address(view: memoryview) -> int:
    if not view.readonly:
        return ctypes.addressof(_byte_at(view))  # a quarter of what numpy's way takes, which does for all
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


def pairs(views: Sequence[memoryview]) -> bytes:
    """Addresses and lengths."""
    if len(views) == 1:
        return _PAIR.pack(_address(views[0]), len(views[0]))
    return b"".join(_PAIR.pack(_address(view), len(view)) for view in views)


def place(lane: LaneQueue, header: Header) -> list[memoryview] | None:
    """Where the handler wants the payload."""
    placed = lane.place(header)
    if placed is None:
        return None
    views = [view.cast("B") for view in placed if view.nbytes]
    total = sum(map(len, views))
    if total != header.payload_bytes:
        raise ProtocolError(f"{header}: its place has {total} bytes, not {header.payload_bytes}")
    return views


def copy(payload: memoryview, views: list[memoryview]) -> None:
    start = 0
    for view in views:
        view[:] = payload[start : start + len(view)]
        start += len(view)
