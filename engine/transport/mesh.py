"""Opening the connections: two per pair of parties, the higher number calls the lower one."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.transport.errors import DeadlineMissed

_HELLO = struct.Struct("<8sHHB3x16s")
_MAGIC = b"TYARD\0\0\1"
_DATA, _CONTROL = 0, 1
_STRANGER_S = 5.0

Address = tuple[str, int]


@dataclass(slots=True)
class Pair:
    """The two connections with one peer."""

    data: socket.socket | None = None
    control: socket.socket | None = None

    def complete(self) -> bool:
        return self.data is not None and self.control is not None


def listen(bind: str, port: int) -> socket.socket:
    """A listening socket on `bind`; `port` 0 lets the system choose."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((bind, port))
    listener.listen(256)
    return listener


def connect_all(
    listener: socket.socket,
    index: int,
    names: Sequence[str],
    addresses: Mapping[int, Address],
    *,
    token: bytes,
    deadline_s: float,
) -> dict[int, tuple[socket.socket, socket.socket]]:
    """Data and control connection with every party in `addresses` (number -> host, port).

    Connections that do not introduce themselves with this job's `token` are dropped. Raises DeadlineMissed
    with the names of the parties that did not come.
    """
    end = time.monotonic() + deadline_s
    pairs = {peer: Pair() for peer in addresses if peer != index}
    try:
        for peer, pair in pairs.items():
            if peer < index:
                hello = (_MAGIC, index, peer)
                pair.data = _call(addresses[peer], _HELLO.pack(*hello, _DATA, token), end)
                pair.control = _call(addresses[peer], _HELLO.pack(*hello, _CONTROL, token), end)
        while not all(pair.complete() for pair in pairs.values()):
            _accept_one(listener, index, pairs, token, end)
    except TimeoutError as error:
        for pair in pairs.values():
            for sock in (pair.data, pair.control):
                if sock is not None:
                    sock.close()
        missing = [names[peer] for peer, pair in pairs.items() if not pair.complete()]
        raise DeadlineMissed(f"{names[index]} connecting to its peers", deadline_s, missing) from error
    return {peer: (pair.data, pair.control) for peer, pair in pairs.items() if pair.data and pair.control}


def _call(address: Address, hello: bytes, end: float) -> socket.socket:
    """Connects and introduces itself; a refused connection is tried again until `end`."""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no connection to {address[0]}:{address[1]}")
        try:
            sock = socket.create_connection(address, timeout=left)
        except ConnectionRefusedError:
            time.sleep(min(0.05, max(left, 0)))
            continue
        sock.sendall(hello)
        return sock


def _accept_one(
    listener: socket.socket, index: int, pairs: dict[int, Pair], token: bytes, end: float
) -> None:
    """Waits for one call and keeps it, if it comes from a party of this job that we wait for."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("parties have not called")
    listener.settimeout(left)
    sock, _ = listener.accept()
    sock.settimeout(min(_STRANGER_S, left))
    hello = b""
    with contextlib.suppress(OSError):
        hello = sock.recv(_HELLO.size, socket.MSG_WAITALL)
    if len(hello) == _HELLO.size:
        magic, origin, destination, channel, theirs = _HELLO.unpack(hello)
        pair = pairs.get(origin)
        if (magic, destination, theirs) == (_MAGIC, index, token) and pair is not None:
            if channel == _DATA and pair.data is None:
                pair.data = sock
                return
            if channel == _CONTROL and pair.control is None:
                pair.control = sock
                return
    sock.close()  # a stranger, or a party of another job


def tune(data: socket.socket, control: socket.socket, unsent_bytes: int, send_buffer_bytes: int) -> None:
    """Non-blocking, no delay, and little room in the kernel for data that was not sent yet.

    TCP_NOTSENT_LOWAT decides when the socket is writable, SO_SNDBUF how much it takes: without both, the
    kernel's buffer would be a FIFO below the priority queue.
    """
    for sock in (data, control):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        data.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
