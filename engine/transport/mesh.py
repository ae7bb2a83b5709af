"""Opening the connections: two per pair of parties, the higher number calls the lower one."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.errors import UserError
from engine.transport import greeting
from engine.transport.door import CONTROL, DATA, STRANGER_S, Door, Pair
from engine.transport.errors import DeadlineMissed
from engine.transport.greeting import Call

_AGAIN_S = 0.05
_NOT_YET = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}
"""A host may be on its way up, as its port may. The kernel itself gives a call up after two minutes where nobody
answers; what ends by a deadline of ours has no number."""

Address = tuple[str, int]
Sockets = dict[int, tuple[socket.socket, socket.socket]]
"""Data and control connection with each peer."""


def listen(bind: str, port: int) -> socket.socket:
    """A listening socket on `bind`; `port` 0 lets the system choose. Raises UserError for an address that is not this
    host's, and for a port that is in use."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bind, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            rule = (
                f"a party binds an address of its own host, and {socket.gethostname()} does not have this one"
            )
            raise UserError("address", bind, rule, "Give one that `ip address` lists there") from error
        if error.errno == errno.EADDRINUSE:
            rule = f"another program listens on this port of {bind}"
            raise UserError("port", port, rule, "Give another port, or end that program") from error
        raise
    return listener


def connect_all(
    listener: socket.socket,
    index: int,
    names: Sequence[str],
    addresses: Mapping[int, Address],
    *,
    token: bytes,
    deadline_s: float,
) -> Sockets:
    """Data and control connection with every party in `addresses` (number -> host, port).

    Only who proves that it knows the attempt's `token` gets in; strangers hold nobody up. Raises DeadlineMissed
    with the names of the parties that did not come.
    """
    end = time.monotonic() + deadline_s
    pairs = {peer: Pair() for peer in addresses if peer != index}
    try:
        for peer, pair in pairs.items():
            if peer < index:
                pair.data = call(addresses[peer], Call(index, peer, DATA), token, end)
                pair.control = call(addresses[peer], Call(index, peer, CONTROL), token, end)
        if not all(pair.complete() for pair in pairs.values()):
            _let_in(listener, index, pairs, token, end)
    except TimeoutError as error:
        for pair in pairs.values():
            pair.close()
        missing = [names[peer] for peer, pair in pairs.items() if not pair.complete()]
        raise DeadlineMissed(f"{names[index]} connecting to its peers", deadline_s, missing) from error
    return {peer: (pair.data, pair.control) for peer, pair in pairs.items() if pair.data and pair.control}


def _let_in(listener: socket.socket, index: int, pairs: Mapping[int, Pair], token: bytes, end: float) -> None:
    """Until every pair is complete; TimeoutError at `end`."""

    def expected(call: Call) -> bool:
        return call.origin in pairs and pairs[call.origin].lacks(call.channel)

    with contextlib.closing(
        Door(listener, index, token, expected, lambda call, sock: pairs[call.origin].take(call, sock))
    ) as door:
        while not all(pair.complete() for pair in pairs.values()):
            if time.monotonic() >= end:
                raise TimeoutError("parties have not called")
            door.serve(end)


def call_all(
    index: int,
    incarnation: int,
    names: Sequence[str],
    addresses: Mapping[int, Address],
    *,
    token: bytes,
    deadline_s: float,
    unwanted: Callable[[], bool],
) -> Sockets | None:
    """The same for a party that was lost and is there again, as `incarnation`: it calls everybody in `addresses`. Who
    has not noticed yet that it was lost hangs up, and is called again. None as soon as `unwanted` says that nobody is
    to be called any more."""
    end = time.monotonic() + deadline_s
    pairs = {peer: Pair() for peer in addresses if peer != index}
    for peer, pair in pairs.items():
        for channel in (DATA, CONTROL):
            wanted = Call(index, peer, channel, incarnation)
            while pair.lacks(channel):
                if unwanted() or time.monotonic() >= end:
                    for each in pairs.values():
                        each.close()
                    if time.monotonic() < end:
                        return None
                    raise DeadlineMissed(f"{names[index]} joining again", deadline_s, [names[peer]])
                with contextlib.suppress(TimeoutError):
                    pair.take(wanted, call(addresses[peer], wanted, token, time.monotonic() + STRANGER_S))
    return {peer: (pair.data, pair.control) for peer, pair in pairs.items() if pair.data and pair.control}


def call(address: Address, wanted: Call, token: bytes, end: float) -> socket.socket:
    """A connection on which both sides have proved that they know the token. Who refuses, hangs up or is somebody else
    is called again until `end`: the port may not be the peer's yet."""
    while (left := end - time.monotonic()) > 0:
        sock: socket.socket | None = None
        with _called_again():
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


@contextlib.contextmanager
def _called_again() -> Iterator[None]:
    """Passes over what ends one call, and not the next."""
    try:
        yield
    except ConnectionError:
        pass
    except OSError as error:
        if error.errno not in _NOT_YET:
            raise


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
