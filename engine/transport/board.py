"""What the parties of an attempt tell everybody, where they share no folder: party 0 holds it, the others copy it.

    party 0                              party i
    listens at the launch's address  <-  calls, and both prove that they know the attempt's token (`greeting`)
                                     ->  all that has been said so far, then whatever anybody says, as it is said
                                     <-  what party i says; party 0 passes it on

So looking something up asks nobody: everyone has a whole copy. A party whose connection has ended says nothing any
more, which everybody hears as well. What is said goes as it is: who needs it secret needs a network of their own.
Cost: what each party says goes once to party 0, and from there to all others.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

from engine.transport import mesh
from engine.transport.door import BOARD, STRANGER_S, Door
from engine.transport.errors import DeadlineMissed, ProtocolError
from engine.transport.greeting import Call
from engine.transport.mesh import Address

_HEAD = struct.Struct("<II")
MOST_BYTES = 2**20
"""Of a key, and of a value."""
LEAVE_S = 5.0
"""How long what was said may take to leave, at the end."""


class Board:
    """One party's copy. Any thread may use it."""

    def __init__(self) -> None:
        self._said: dict[str, bytes] = {}
        self._gone: set[int] = set()
        self._lock = threading.Lock()

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of these have been said."""
        return all(key in self._said for key in keys)

    def get(self, key: str) -> bytes:
        """What was said; KeyError where nothing was."""
        return self._said[key]

    def set(self, key: str, value: str) -> None:
        """Say it to everybody; does not wait until they have heard."""
        raise NotImplementedError

    def gone(self, party: int) -> bool:
        """Whether nothing more can be heard of this party."""
        return party in self._gone

    def close(self) -> None:
        """Leave, once what was said is on its way."""
        raise NotImplementedError


class Holder(Board):
    """Party 0's: the one that the others copy. It must be the last to leave."""

    def __init__(self, address: Address, *, parties: int, token: bytes) -> None:
        """Listens at `address` for as many `parties` as there are. Raises UserError where that cannot be."""
        super().__init__()
        self._parties = parties
        self._lines: dict[int, _Line] = {}
        self._closed = False
        self._listener = mesh.listen(*address)
        self._door = Door(self._listener, 0, token, self._expected, self._came)
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)
        self._thread.start()

    def set(self, key: str, value: str) -> None:
        self._tell(key, value.encode())

    def close(self) -> None:
        self._closed = True
        self._door.wake()
        self._thread.join()
        self._listener.close()
        for line in list(self._lines.values()):
            line.close()

    def _run(self) -> None:
        with contextlib.closing(self._door):
            while not self._closed:
                self._door.serve(time.monotonic() + STRANGER_S)

    def _expected(self, call: Call) -> bool:
        return call.channel == BOARD and 0 < call.origin < self._parties and call.origin not in self._lines

    def _came(self, call: Call, sock: socket.socket) -> None:
        line = _Line(sock, self._tell, lambda: self._lose(call.origin))
        with self._lock:
            for key, value in self._said.items():
                line.say(key, value)
            self._lines[call.origin] = line
        line.start()

    def _tell(self, key: str, value: bytes) -> None:
        with self._lock:
            self._said[key] = value
            for line in self._lines.values():
                line.say(key, value)

    def _lose(self, party: int) -> None:
        self._gone.add(party)
        self._tell(_gone_key(party), b"")


class Copy(Board):
    """Another party's."""

    def __init__(
        self, address: Address, *, index: int, names: Sequence[str], token: bytes, deadline_s: float
    ) -> None:
        """Calls party 0 at `address`; raises DeadlineMissed where it does not answer in time."""
        super().__init__()
        try:
            sock = mesh.call(address, Call(index, 0, BOARD), token, time.monotonic() + deadline_s)
        except TimeoutError as error:
            waiting = f"{names[index]} calling {names[0]} at {address[0]}:{address[1]}"
            raise DeadlineMissed(waiting, deadline_s, [names[0]]) from error
        self._line = _Line(sock, self._hear, lambda: self._gone.add(0))
        self._line.start()

    def set(self, key: str, value: str) -> None:
        self._said[key] = value.encode()
        self._line.say(key, value.encode())

    def close(self) -> None:
        self._line.close()

    def _hear(self, key: str, value: bytes) -> None:
        if key.startswith(_GONE):
            self._gone.add(int(key.removeprefix(_GONE)))
        else:
            self._said[key] = value


_GONE = "gone/"


def _gone_key(party: int) -> str:
    return f"{_GONE}{party}"


class _Line:
    """One connection: a thread that reads what the other end says, and one that writes, so that nobody waits for it."""

    def __init__(
        self, sock: socket.socket, heard: Callable[[str, bytes], None], ended: Callable[[], None]
    ) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._heard = heard
        self._ended = ended
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="board reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="board writer", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def say(self, key: str, value: bytes) -> None:
        """Queue it; never blocks."""
        name = key.encode()
        if max(len(name), len(value)) > MOST_BYTES:
            raise ProtocolError(f"{key[:200]!r} has {len(value)} bytes; the board takes {MOST_BYTES}")
        self._waiting.put(_HEAD.pack(len(name), len(value)) + name + value)

    def close(self) -> None:
        """What was said leaves first, for LEAVE_S at most."""
        self._waiting.put(None)
        self._writer.join(LEAVE_S)
        with contextlib.suppress(OSError):  # it has hung up already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._reader.join(LEAVE_S)
        self._sock.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the reader notices it, too
            while (frame := self._waiting.get()) is not None:
                self._sock.sendall(frame)

    def _read(self) -> None:
        try:
            while head := self._take(_HEAD.size):
                key_bytes, value_bytes = _HEAD.unpack(head)
                if max(key_bytes, value_bytes) > MOST_BYTES:
                    break  # no party of ours
                body = self._take(key_bytes + value_bytes)
                if len(body) < key_bytes + value_bytes:
                    break
                self._heard(body[:key_bytes].decode(), body[key_bytes:])
        except (OSError, UnicodeDecodeError):
            pass
        self._ended()

    def _take(self, count: int) -> bytes:
        """So many bytes; none where the connection ended before they had come."""
        found = b""
        while len(found) < count and (more := self._sock.recv(count - len(found))):
            found += more
        return found if len(found) == count else b""
