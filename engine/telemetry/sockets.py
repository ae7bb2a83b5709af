"""What the kernel has counted of some TCP connections of this process (Linux 4.19 or newer).

They belong to somebody else, a library: nothing is read from them, and they are not kept open.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_LEAST = 216
"""Bytes of a `struct tcp_info` that has what we read."""
_RECEIVED = struct.Struct("<128xQ")
_SENT = struct.Struct("<200xQQ")
"""Bytes of data sent, and of those the ones that were sent again."""

Connection = tuple[int, int]
"""File descriptor and inode: the number alone may be another file's by now."""


def connections() -> set[Connection]:
    """This process's TCP connections that are open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        descriptor = int(entry.name)
        try:
            target = str(entry.readlink())
        except OSError:  # it was closed meanwhile
            continue
        if target.startswith("socket:[") and _addresses(descriptor) is not None:
            found.add((descriptor, int(target[8:-1])))
    return found


class SocketCounters:
    """Bytes over connections, those that have ended included."""

    def __init__(self, *, within_host: bool) -> None:
        """`within_host`: connections that end at their own address count, too."""
        self._within_host = within_host
        self._known: dict[Connection, tuple[int, int]] = {}
        """What each was last found to have sent and received."""

    def add(self, found: set[Connection]) -> None:
        """Count these from their beginning."""
        for connection in found:
            ends = _addresses(connection[0])
            if ends is not None and (self._within_host or ends[0] != ends[1]):
                self._known.setdefault(connection, (0, 0))

    def read(self) -> tuple[int, int]:
        """(sent, received) so far: payload of TCP, as it left for the first time."""
        for connection in self._known:
            now = _bytes(*connection)
            if now is not None:
                self._known[connection] = now
        return sum(sent for sent, _ in self._known.values()), sum(got for _, got in self._known.values())


def _addresses(descriptor: int) -> tuple[str, str] | None:
    """Own and other address of a TCP connection; None of anything else."""
    try:
        borrowed = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if borrowed.type != socket.SOCK_STREAM or borrowed.family not in {socket.AF_INET, socket.AF_INET6}:
            return None
        return borrowed.getsockname()[0], borrowed.getpeername()[0]
    except OSError:  # it listens, or is not connected yet
        return None
    finally:
        borrowed.detach()


def _bytes(descriptor: int, inode: int) -> tuple[int, int] | None:
    """Sent and received; None where the connection has ended."""
    try:
        if os.fstat(descriptor).st_ino != inode:
            return None
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=descriptor)
        try:
            told = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        finally:
            borrowed.detach()
    except OSError:
        return None
    if len(told) < _LEAST:
        return None
    sent, again = _SENT.unpack_from(told)
    (received,) = _RECEIVED.unpack_from(told)
    return sent - again, received
