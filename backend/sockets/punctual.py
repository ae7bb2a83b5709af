"""A connection whose client does not send what it began to, or does not take what it asked for, ends.

Whoever only connects, or sends half a request, would hold a connection for as long as it likes: uvicorn waits for ever
for all but the first byte of a further request. Three limits:

- A request's head has to be there within `head_s`, from the connection's begin or the end of the answer before. It is
  16 KiB at most, so that is enough on any line.
- Of its body, `bytes_per_s` have to come on average in every `head_s` in which we wait for it. So a long upload on a
  slow line may take as long as it needs, and a server that is busy blames nobody.
- Of an answer, a live feed's too, something has to be taken within `unread_s`. The kernel looks after that.

A client that has sent all of its request is not looked at: a feed may be silent for hours.

Where the server has no room for another connection, `make_room` does not wait for the first limit. Who has asked for
something keeps its connection; strangers who send heads that never end cannot keep anybody out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from backend.sockets.seldom import Seldom

SPARED_S = 0.25
"""So long a client has for its head even where there is no room: who means it sends it with its first packets."""
SHARE = 10
"""One in so many of the connections that can be spared ends at a time: not for each new one all are looked at."""
INVALID = "Invalid HTTP request received."
"""What uvicorn logs of bytes that are no HTTP, once for each stranger who sends some."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a client may take."""

    head_s: float
    bytes_per_s: int
    unread_s: float

    @property
    def least_bytes(self) -> int:
        """Of a body, in every `head_s`."""
        return round(self.bytes_per_s * self.head_s)


class Punctual(H11Protocol):
    """uvicorn's protocol, with an end for those who do not go on. The server calls `look` about once a second."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], patience: Patience
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._patience = patience
        self._came = 0
        """Bytes since it began to be waited for what is outstanding."""
        self._since = self.loop.time()
        self._awaited: object = None
        """What was outstanding at the last look."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited = self._outstanding()
        milliseconds = round(self._patience.unread_s * 1_000)
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        # An answer leaves in two parts, and the second would wait 40 ms for the client's word on the first.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        super().data_received(data)

    def look(self) -> None:
        """End the connection where it has not gone on in time."""
        now = self.loop.time()
        awaited = self._outstanding()
        if awaited != self._awaited:
            self._awaited, self._since, self._came = awaited, now, 0
        elif awaited is not None and now > self._since + self._patience.head_s:
            if self.conn.their_state is h11.SEND_BODY and self._came >= self._patience.least_bytes:
                self._since, self._came = now, 0
            else:
                patience = self._patience
                self._end(
                    408,
                    "Request Timeout",
                    f"The request did not come in time: its head is to be here within {patience.head_s:g} s, and of "
                    f"its body {patience.bytes_per_s} bytes a second. Send it again\n",
                )

    def head_awaited_s(self) -> float | None:
        """Look, and answer how long the head of a request has been waited for, since an earlier look noticed; None
        where none is."""
        self.look()
        return self.loop.time() - self._since if self._awaited and self.conn.their_state is h11.IDLE else None

    def make_way(self) -> None:
        """End the connection, whose request's head is waited for, so that there is room for another one."""
        self._end(
            503, "Service Unavailable", "The server has as many connections as it may have. Send it again\n"
        )

    def _outstanding(self) -> object:
        """Which part of which request we wait for; None where it is not the client's turn."""
        state = self.conn.their_state
        if self.transport.is_closing() or state not in {h11.IDLE, h11.SEND_BODY}:
            return None
        # It is our turn where what came is not read yet, or we have not said that it may come.
        ours = state is h11.SEND_BODY and (self.flow.read_paused or self.cycle.waiting_for_100_continue)
        return None if ours and not self.cycle.response_complete else (state, self.cycle)

    def _end(self, status: int, reason: str, text: str) -> None:
        logger.debug("a connection from %s ends: %s", self.client, text)
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the application still says is for nobody
        began = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
        if began and self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._say_why(status, reason, text.encode())
        self.transport.close()

    def _say_why(self, status: int, reason: str, text: bytes) -> None:
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(text))),
            ("connection", "close"),
        ]
        answer = h11.Response(status_code=status, headers=headers, reason=reason.encode())
        for event in (answer, h11.Data(data=text), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))

    def _unsupported_upgrade_warning(self) -> None:
        """It is answered as if it had not asked. uvicorn warns, twice."""
        logger.debug("%s asked for another protocol, which is not supported", self.client)


def make_room(connections: Iterable[Punctual]) -> bool:
    """End those of which a head has been waited for longest; answers whether there were any."""
    waited = [(awaited, one) for one in connections if (awaited := one.head_awaited_s()) is not None]
    spared = sorted((one for one in waited if one[0] > SPARED_S), key=lambda one: -one[0])
    for _, one in spared[: -(-len(spared) // SHARE)]:
        one.make_way()
    return bool(spared)


class _Invalid(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._seldom = Seldom()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != INVALID or self._seldom.due()


def quieten() -> None:
    """What strangers make uvicorn log is logged once a minute."""
    uvicorns = logging.getLogger("uvicorn.error")
    if not any(isinstance(known, _Invalid) for known in uvicorns.filters):
        uvicorns.addFilter(_Invalid())
