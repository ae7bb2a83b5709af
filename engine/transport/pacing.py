"""A software rate limit that needs no permission: serial egress and ingress clocks per host.

Every host of the job has one clock per direction in a small file that its processes map into memory: "when
is this direction free again?". A chunk may pass when its direction is free, and occupies it for its size
over the rate; both directions at once (full duplex). Ingress is paced as well as egress, so that several
senders to one host wait for each other (incast). Only messages between different hosts pass here.

The I/O loop asks, and comes back at the time it is told; nothing sleeps. A late timer does not cost
throughput: a direction that somebody was waiting for may catch up at most `CATCH_UP_NS` of lost time, one
that was idle none. Bytes in any window T are therefore at most rate x (T + CATCH_UP_NS) plus one chunk.

Limits: bytes are paced where the process meets the kernel, not on a wire; every process of a host must use
the same file; the medium between the hosts has no limit of its own.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

CATCH_UP_NS = 10_000_000
CHUNK_BYTES = 64 * 1024
_CHUNK_NS = 2_000_000
_MIN_CHUNK_BYTES = 4096
_SLOTS = 256
_HEAD = struct.Struct("<8sQ")
_SLOT = struct.Struct("<48sqqqq")
_STATE = struct.Struct("<qq")  # when the direction is free again; whether somebody waits for that
_MAGIC = b"TYPACER1"
_BYTES = _HEAD.size + _SLOTS * _SLOT.size
_DIRECTION_OFFSET = {"egress": 48, "ingress": 64}

Direction = Literal["egress", "ingress"]


class Shared(NamedTuple):
    """Where a clock is, for who keeps to it without this module; as long as the pacer is not closed."""

    file: int
    """To be locked around each use."""
    address: int
    """Of two 64-bit numbers: when the direction is free again, and whether somebody waits for that."""
    rate_bps: int


class Pacer:
    """The paced links of a job, shared through the file at `path` by all its processes on this machine.

    `rate_bps` is the rate of each direction of each host, in bits per second. Raises ValueError where the
    file was made for another rate.
    """

    def __init__(self, path: str | Path, rate_bps: int) -> None:
        if rate_bps < 1000:
            raise ValueError(f"rate_bps = {rate_bps}: at least 1000 bit/s; leave the pacer out for no limit")
        self.rate_bps = rate_bps
        self.chunk_bytes = min(CHUNK_BYTES, max(_MIN_CHUNK_BYTES, rate_bps * _CHUNK_NS // 8 // 10**9))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with self._locked():
            if os.fstat(self._file).st_size == 0:
                os.ftruncate(self._file, _BYTES)
                os.pwrite(self._file, _HEAD.pack(_MAGIC, rate_bps), 0)
            self._map = mmap(self._file, _BYTES)
            magic, rate = _HEAD.unpack_from(self._map, 0)
        if (magic, rate) != (_MAGIC, rate_bps):
            raise ValueError(
                f"{path} paces at {rate} bit/s, not at {rate_bps}: give all processes of the job the same "
                "rate and every attempt its own file"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Excludes other processes and other pacers of this process; held for a few loads and stores."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def link(self, host: str, direction: Direction) -> PacedLink:
        """The clock of one direction of `host`. Raises ValueError for a long name or the 257th host."""
        name = host.encode()
        if not 0 < len(name) <= 48:
            raise ValueError(f"host = {host!r}: 1 to 48 bytes; give the hosts short names")
        with self._locked():
            for slot in range(_SLOTS):
                at = _HEAD.size + slot * _SLOT.size
                known = _SLOT.unpack_from(self._map, at)[0].rstrip(b"\0")
                if not known:
                    _SLOT.pack_into(self._map, at, name, 0, 0, 0, 0)
                if known in (b"", name):
                    return PacedLink(self, at + _DIRECTION_OFFSET[direction])
        raise ValueError(f"host = {host!r}: a paced job has at most {_SLOTS} hosts; pace fewer")

    def close(self) -> None:
        """Unmaps the file; it stays for the other processes."""
        self._map.close()
        os.close(self._file)

    def _acquire(self, at: int, count_bytes: int, now_ns: int) -> int:
        with self._locked():
            free_at_ns, waited_for = _STATE.unpack_from(self._map, at)
            if free_at_ns > now_ns:
                _STATE.pack_into(self._map, at, free_at_ns, 1)
                return int(free_at_ns)
            start_ns = max(free_at_ns, now_ns - CATCH_UP_NS) if waited_for else now_ns
            end_ns = start_ns + self._duration_ns(count_bytes)
            _STATE.pack_into(self._map, at, end_ns, int(waited_for and end_ns < now_ns))
            return 0

    def _refund(self, at: int, count_bytes: int) -> None:
        with self._locked():
            free_at_ns, waited_for = _STATE.unpack_from(self._map, at)
            _STATE.pack_into(self._map, at, free_at_ns - self._duration_ns(count_bytes), waited_for)

    def _duration_ns(self, count_bytes: int) -> int:
        return count_bytes * 8 * 10**9 // self.rate_bps


class PacedLink:
    """One direction of one host."""

    __slots__ = ("_at", "_pacer", "chunk_bytes")

    def __init__(self, pacer: Pacer, at: int) -> None:
        self._pacer = pacer
        self._at = at
        self.chunk_bytes = pacer.chunk_bytes

    def acquire(self, count_bytes: int, now_ns: int | None = None) -> int:
        """Occupy the link for `count_bytes`: 0 if they may pass now, else the monotonic time to ask again."""
        return self._pacer._acquire(self._at, count_bytes, time.monotonic_ns() if now_ns is None else now_ns)

    def shared(self) -> Shared:
        """Where this clock is."""
        address = np.frombuffer(self._pacer._map, np.uint8).__array_interface__["data"][0]
        return Shared(self._pacer._file, address + self._at, self._pacer.rate_bps)

    def refund(self, count_bytes: int) -> None:
        """Give back what was acquired and did not pass."""
        if count_bytes:
            self._pacer._refund(self._at, count_bytes)
