"""The control connection: small frames beside the data, so that no backlog delays them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from engine.transport.errors import ProtocolError

_WIRE = struct.Struct("<BxHxxxxqq")
TEXT_LIMIT_BYTES = 4000


class Control(IntEnum):
    """Kinds of control frames, with the meaning of `a` and `b`."""

    HEARTBEAT = 1
    CREDIT = 2
    """a: bytes given back."""
    PING = 3
    """a: the sender's clock."""
    PONG = 4
    """a: as in the ping; b: the answerer's clock."""
    GOODBYE = 5
    """No more data will come; everything queued was sent."""
    FAREWELL = 6
    """The answer to GOODBYE: everything was received."""
    ABORT = 7
    """a: the party at fault; text: why."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One control frame."""

    kind: Control
    a: int = 0
    b: int = 0
    text: str = ""

    def encode(self) -> bytes:
        """The frame as it travels; long texts are cut."""
        text = self.text.encode()[:TEXT_LIMIT_BYTES]
        return _WIRE.pack(self.kind, len(text), self.a, self.b) + text


class ControlChannel:
    """One non-blocking control connection with its two small byte queues. Used by the I/O thread only."""

    __slots__ = ("_incoming", "_outgoing", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def put(self, frame: Frame) -> None:
        """Queue a frame; it leaves with the next `flush`."""
        self._outgoing += frame.encode()

    def has_output(self) -> bool:
        """Whether bytes wait for the kernel."""
        return bool(self._outgoing)

    def flush(self) -> int:
        """Give the kernel what it takes; answers how many bytes that was. Raises OSError."""
        if not self._outgoing:
            return 0
        try:
            count = self.sock.send(self._outgoing)
        except BlockingIOError:
            return 0
        del self._outgoing[:count]
        return count

    def receive(self) -> int | None:
        """Take what the kernel has; answers the number of bytes, 0 if none, None at the end of the stream."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return 0
        if not data:
            return None
        self._incoming += data
        return len(data)

    def frames(self) -> Iterator[Frame]:
        """The complete frames received. Raises ProtocolError for an unknown kind."""
        while len(self._incoming) >= _WIRE.size:
            kind, text_bytes, a, b = _WIRE.unpack_from(self._incoming)
            end = _WIRE.size + text_bytes
            if len(self._incoming) < end:
                return
            text = bytes(self._incoming[_WIRE.size : end]).decode(errors="replace")
            del self._incoming[:end]
            try:
                yield Frame(Control(kind), a, b, text)
            except ValueError as error:
                raise ProtocolError(f"unknown control frame of kind {kind}") from error
