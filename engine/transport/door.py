"""The door of a party: callers are heard side by side, and those whose calls are expected, and who prove that they know
the attempt's token, come in. It is closed when all have come, or kept, for parties that are lost and come back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.transport import greeting
from engine.transport.greeting import Call
from engine.transport.waker import Waker

DATA, CONTROL, BOARD = 0, 1, 2
"""Channels of a call: messages, words beside them, and what everybody is told (`engine/transport/board.py`)."""
STRANGER_S = 5.0
"""How long a caller may take to introduce itself."""
MOST_STRANGERS = 64
"""Callers that introduce themselves at a time; one more, and the first of them must call again."""

Returned = Callable[[Call, socket.socket, socket.socket], None]
"""Is told of a party that has called again, with its data and control connection."""


@dataclass(slots=True)
class Pair:
    """The two connections with one peer."""

    data: socket.socket | None = None
    control: socket.socket | None = None

    def complete(self) -> bool:
        return self.data is not None and self.control is not None

    def lacks(self, channel: int) -> bool:
        return (self.data if channel == DATA else self.control) is None

    def take(self, call: Call, sock: socket.socket) -> None:
        if call.channel == DATA:
            self.data = sock
        else:
            self.control = sock

    def close(self) -> None:
        for sock in (self.data, self.control):
            if sock is not None:
                sock.close()


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


class Door:
    """Takes calls side by side. Used by one thread; any may wake it."""

    def __init__(
        self,
        listener: socket.socket,
        index: int,
        token: bytes,
        expected: Callable[[Call], bool],
        came: Callable[[Call, socket.socket], None],
    ) -> None:
        """`expected(call)`: whether somebody is waited for who calls so. `came`: it has come in."""
        self._listener = listener
        self._index = index
        self._token = token
        self._expected = expected
        self._came = came
        self._callers: dict[socket.socket, _Caller] = {}
        """In the order in which they called."""
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._waker.fileno(), selectors.EVENT_READ)

    def close(self) -> None:
        for sock in list(self._callers):
            self._hang_up(sock)
        self._selector.close()
        self._waker.close()

    def wake(self) -> None:
        """Let `serve` return."""
        self._waker.wake()

    def serve(self, end: float) -> None:
        """Hear whoever calls next, until `end` at most."""
        now = time.monotonic()
        first = min((c.end for c in self._callers.values()), default=end)
        for key, _ in self._selector.select(max(min(first, end) - now, 0)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj == self._waker.fileno():
                self._waker.clear()
            elif (caller := self._callers.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                self._hear(caller)
        # Not before: what a caller has proved may have come while this thread had no turn.
        for caller in [c for c in self._callers.values() if c.end <= now]:
            self._hang_up(caller.sock)

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
            if wanted is None or wanted.destination != self._index or not self._expected(wanted):
                self._hang_up(caller.sock)  # a stranger, or a party of another job
                return
            caller.message = heard
            caller.challenged = greeting.challenge(self._token, heard)
            with contextlib.suppress(OSError):  # who has hung up is heard next
                caller.sock.send(caller.challenged)  # a new connection has room for these few bytes
            return
        wanted = greeting.read_call(caller.message)
        assert wanted is not None
        known = greeting.accepted(self._token, caller.message, caller.challenged, heard)
        if known and self._expected(wanted):
            self._came(wanted, self._let_in(caller.sock))
        else:
            self._hang_up(caller.sock)

    def _let_in(self, sock: socket.socket) -> socket.socket:
        self._selector.unregister(sock)
        del self._callers[sock]
        return sock

    def _hang_up(self, sock: socket.socket) -> None:
        self._let_in(sock).close()


class KeptDoor:
    """Stays open, in a thread of its own, for parties that were lost and call again."""

    def __init__(
        self,
        listener: socket.socket,
        index: int,
        token: bytes,
        peers: Iterable[int],
        *,
        gone: Callable[[int], bool],
        returned: Returned,
    ) -> None:
        """Any of `peers` may come, once it is `gone`, as a later incarnation than before. `returned` is told, in this
        thread, when both connections are there."""
        self._gone = gone
        self._returned = returned
        self._incarnation = dict.fromkeys(peers, 0)
        self._pairs: dict[int, tuple[int, Pair]] = {}
        """By caller: its incarnation, and what has come of it."""
        self._door = Door(listener, index, token, self._expected, self._came)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody comes in any more."""
        self._closed = True
        self._door.wake()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._door):
            while not self._closed:
                self._door.serve(time.monotonic() + STRANGER_S)
        for _, pair in self._pairs.values():
            pair.close()

    def _expected(self, call: Call) -> bool:
        """Whether its caller was lost, and this is not who was."""
        known = call.origin in self._incarnation and call.incarnation > self._incarnation[call.origin]
        return known and self._gone(call.origin)

    def _came(self, call: Call, sock: socket.socket) -> None:
        incarnation, pair = self._pairs.pop(call.origin, (0, Pair()))
        if incarnation != call.incarnation or not pair.lacks(call.channel):
            pair.close()  # of one that died, or called again, before it had called twice
            pair = Pair()
        pair.take(call, sock)
        if pair.data is not None and pair.control is not None:
            self._incarnation[call.origin] = call.incarnation
            self._returned(call, pair.data, pair.control)
        else:
            self._pairs[call.origin] = call.incarnation, pair
