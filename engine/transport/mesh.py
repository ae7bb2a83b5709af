"""Opening the connections: two per pair of parties, the higher number calls the lower one."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.transport import greeting
from engine.transport.errors import DeadlineMissed
from engine.transport.greeting import Call

_DATA, _CONTROL = 0, 1
_AGAIN_S = 0.05
STRANGER_S = 5.0
"""How long a caller may take to introduce itself."""
MOST_STRANGERS = 64
"""Callers that introduce themselves at a time; one more, and the first of them must call again."""

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

    Only who proves that it knows the attempt's `token` gets in; strangers hold nobody up. Raises DeadlineMissed
    with the names of the parties that did not come.
    """
    end = time.monotonic() + deadline_s
    pairs = {peer: Pair() for peer in addresses if peer != index}
    try:
        for peer, pair in pairs.items():
            if peer < index:
                pair.data = _call(addresses[peer], Call(index, peer, _DATA), token, end)
                pair.control = _call(addresses[peer], Call(index, peer, _CONTROL), token, end)
        if not all(pair.complete() for pair in pairs.values()):
            with contextlib.closing(_Door(listener, index, pairs, token)) as door:
                door.wait(end)
    except TimeoutError as error:
        for pair in pairs.values():
            for sock in (pair.data, pair.control):
                if sock is not None:
                    sock.close()
        missing = [names[peer] for peer, pair in pairs.items() if not pair.complete()]
        raise DeadlineMissed(f"{names[index]} connecting to its peers", deadline_s, missing) from error
    return {peer: (pair.data, pair.control) for peer, pair in pairs.items() if pair.data and pair.control}


def _call(address: Address, wanted: Call, token: bytes, end: float) -> socket.socket:
    """A connection on which both sides have proved that they know the token. Who refuses, hangs up or is somebody else
    is called again until `end`: the port may not be the peer's yet."""
    while (left := end - time.monotonic()) > 0:
        sock: socket.socket | None = None
        with contextlib.suppress(ConnectionError):
            sock = socket.create_connection(address, timeout=left)
            message = greeting.call(wanted)
            sock.sendall(message)
            challenged = sock.recv(greeting.CHALLENGE_BYTES, socket.MSG_WAITALL)
            if len(challenged) == greeting.CHALLENGE_BYTES:
                proof = greeting.answer(token, message, challenged)
                if proof is not None:
                    sock.sendall(proof)
                    return sock
        if sock is not None:
            sock.close()
        time.sleep(min(_AGAIN_S, max(end - time.monotonic(), 0)))
    raise TimeoutError(f"no connection to {address[0]}:{address[1]}")


@dataclass(slots=True)
class _Caller:
    """Somebody who has called and not yet proved who it is."""

    sock: socket.socket
    end: float
    heard: bytes = b""
    message: bytes = b""
    """The call, once it has come whole."""
    challenged: bytes = b""

    @property
    def wanted(self) -> int:
        """Bytes of the step that it is at."""
        return greeting.ANSWER_BYTES if self.message else greeting.CALL_BYTES


class _Door:
    """Takes calls side by side, and keeps those of the parties that are waited for."""

    def __init__(self, listener: socket.socket, index: int, pairs: Mapping[int, Pair], token: bytes) -> None:
        self._listener = listener
        self._index = index
        self._pairs = pairs
        self._token = token
        self._callers: dict[socket.socket, _Caller] = {}
        """In the order in which they called."""
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def close(self) -> None:
        for sock in list(self._callers):
            self._hang_up(sock)
        self._selector.close()

    def wait(self, end: float) -> None:
        """Until every pair is complete; TimeoutError at `end`."""
        while not all(pair.complete() for pair in self._pairs.values()):
            now = time.monotonic()
            if now >= end:
                raise TimeoutError("parties have not called")
            for caller in [c for c in self._callers.values() if c.end <= now]:
                self._hang_up(caller.sock)
            first = min((c.end for c in self._callers.values()), default=end)
            for key, _ in self._selector.select(min(first, end) - now):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._hear(self._callers[key.fileobj])  # type: ignore[index]

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it hung up before it was let in
            return
        sock.setblocking(False)
        if len(self._callers) == MOST_STRANGERS:
            self._hang_up(next(iter(self._callers)))
        self._callers[sock] = _Caller(sock, time.monotonic() + STRANGER_S)
        self._selector.register(sock, selectors.EVENT_READ)

    def _hear(self, caller: _Caller) -> None:
        try:
            heard = caller.sock.recv(caller.wanted - len(caller.heard))
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        caller.heard += heard
        if not heard:
            self._hang_up(caller.sock)
        elif len(caller.heard) == caller.wanted:
            self._step(caller)

    def _step(self, caller: _Caller) -> None:
        """The call, or the proof, has come whole."""
        heard, caller.heard = caller.heard, b""
        if not caller.message:
            wanted = greeting.read_call(heard)
            if wanted is None or wanted.destination != self._index or wanted.origin not in self._pairs:
                self._hang_up(caller.sock)  # a stranger, or a party of another job
                return
            caller.message = heard
            caller.challenged = greeting.challenge(self._token, heard)
            with contextlib.suppress(OSError):  # who has hung up is heard next
                caller.sock.send(caller.challenged)  # a new connection has room for these few bytes
            return
        if not greeting.accepted(self._token, caller.message, caller.challenged, heard):
            self._hang_up(caller.sock)
            return
        wanted = greeting.read_call(caller.message)
        assert wanted is not None
        pair = self._pairs[wanted.origin]
        if wanted.channel == _DATA and pair.data is None:
            pair.data = self._let_in(caller.sock)
        elif wanted.channel == _CONTROL and pair.control is None:
            pair.control = self._let_in(caller.sock)
        else:
            self._hang_up(caller.sock)

    def _let_in(self, sock: socket.socket) -> socket.socket:
        self._selector.unregister(sock)
        del self._callers[sock]
        return sock

    def _hang_up(self, sock: socket.socket) -> None:
        self._let_in(sock).close()


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
