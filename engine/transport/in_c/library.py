"""The library's functions and structures, as ctypes needs to know them: see api.c and core.h.

Functions that may wait are called without the interpreter lock (`waiting`); the others take a microsecond and keep it
(`quick`), because to get it back beside a busy training loop takes milliseconds.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from enum import IntEnum
from functools import cache

from engine.transport.in_c.build import library_path

EVENT = struct.Struct("<4iQqqqQBBBxHHIIIiiqQIIxxxx")
"""kind, peer, slot, meta_bytes, id, count, start, end, data; then the message's header."""
TOLERATED = 1
"""As the slot of a loss: the peer may be lost."""
SLOT_BYTES = 256 * 1024
SLOT_ALIGNMENT = 64
NO_SLOT = -1


class Event(IntEnum):
    """`enum event_kind` of core.h."""

    MESSAGE = 1
    PLACED = 2
    ASK_ALLOW = 3
    ASK_PLACE = 4
    RECEIVED_RUN = 5
    SENT_RUN = 6
    SENT = 7
    PONGED = 8
    PARTED = 9
    LOST = 10
    ABORTED = 11
    BROKEN = 12
    DROPPED = 13


class Options(ctypes.Structure):
    """`struct options` of api.c."""

    _fields_ = [
        ("epoch_ns", c_int64),
        ("heartbeat_ns", c_int64),
        ("silence_ns", c_int64),
        ("window_bytes", c_int64),
        ("backlog_bytes", c_int64),
        ("pacer_file", c_int64),
        ("pacer_rate_bps", c_int64),
        ("pacer_chunk_bytes", c_int64),
        ("egress_state", c_uint64),
        ("ingress_state", c_uint64),
    ]


class PeerOptions(ctypes.Structure):
    """`struct peer_options` of api.c."""

    _fields_ = [("index", c_int32), ("data", c_int32), ("control", c_int32), ("paced", c_int32)]


class Count(ctypes.Structure):
    """`struct count` of api.c."""

    _fields_ = [("peer", c_int32), ("layer", c_int32), ("bytes", c_uint64)]


class Library:
    """The library, loaded."""

    def __init__(self, path: str) -> None:
        quick, waiting = ctypes.PyDLL(path), ctypes.CDLL(path)

        def declare(
            library: ctypes.CDLL, name: str, answer: object, *arguments: object
        ) -> ctypes._NamedFuncPointer:
            function = getattr(library, name)
            function.restype, function.argtypes = answer, arguments
            return function

        core = c_void_p
        self.open = declare(quick, "ty_open", core, POINTER(Options), POINTER(PeerOptions), c_int)
        self.send = declare(
            quick,
            "ty_send",
            c_bool,
            core,
            c_int,
            c_char_p,
            c_size_t,
            c_char_p,
            c_int,
            c_uint64,
            c_bool,
            c_bool,
        )
        self.nudge = declare(quick, "ty_nudge", None, core)
        self.may_lose = declare(quick, "ty_may_lose", None, core, c_int)
        self.wait = declare(waiting, "ty_wait", c_int, core, c_void_p, c_int, c_int64, c_void_p, c_int)
        self.wake = declare(quick, "ty_wake", None, core)
        self.handled = declare(quick, "ty_handled", None, core, c_int, c_int64, c_int)
        self.answer = declare(quick, "ty_answer", c_bool, core, c_int, c_char_p, c_int)
        self.ping = declare(quick, "ty_ping", None, core, c_int)
        self.part = declare(quick, "ty_part", None, core)
        self.parted = declare(quick, "ty_parted", c_bool, core, c_int)
        self.stop = declare(quick, "ty_stop", None, core, c_int64, c_char_p)
        self.join = declare(waiting, "ty_join", None, core)
        self.counters = declare(
            quick,
            "ty_counters",
            None,
            core,
            POINTER(Count),
            POINTER(Count),
            POINTER(Count),
            c_int,
            POINTER(c_int),
        )
        self.slots = declare(quick, "ty_slots", c_void_p, core)
        self.slots_bytes = declare(quick, "ty_slots_bytes", c_size_t)
        self.free = declare(quick, "ty_free", None, core)


@cache
def library() -> Library | None:
    """The library; None where it has not been built."""
    path = library_path()
    return Library(str(path)) if path.exists() else None
