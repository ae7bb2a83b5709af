"""Running the application: a socket, a uvicorn server that ends cleanly, and errors that say what to do."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from backend.access.addresses import is_loopback
from backend.access.token import MAKE_ONE
from backend.settings import Settings
from backend.sockets.accepting import accept
from backend.sockets.descriptors import room_for
from backend.sockets.punctual import Patience, Punctual, make_room, quieten
from engine.errors import UserError

STREAMS_END_S = 5
"""How long open requests may take after the server was told to end."""
LOOK_EVERY = 10
"""Of uvicorn's ticks, a tenth of a second each: how often connections are looked at."""


def listen(host: str, port: int, *, for_others: bool) -> socket.socket:
    """A bound socket, so that the address is ours before anything else starts. Port 0: any free one.

    Raises UserError where the port is taken, the address is not this machine's, or others reach it and it is not
    `for_others` (who have to show a token, or need not because somebody said so).
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise UserError("host", host, f"is no address ({error.strerror})", "Use 127.0.0.1") from None
    family, _, _, _, address = found[0]
    if not for_others and not is_loopback(str(address[0])):
        raise _open_to_all(host, str(address[0]))
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(socket.SOMAXCONN)  # a second program may bind before anybody listens, with SO_REUSEADDR
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                "port",
                port,
                f"is in use on {host}",
                "Stop what listens there, or choose another (0: any free one)",
            ) from None
        raise UserError("host", host, f"cannot be listened on ({error.strerror})", "Use 127.0.0.1") from None
    return sock


def _open_to_all(host: str, address: str) -> UserError:
    which = "this address" if host == address else f"it, as {address}"
    return UserError(
        "host",
        host,
        f"other machines reach {which}, and whoever reaches the server can run programs here: jobs are programs",
        f"Listen on 127.0.0.1; or set a token, which everybody then has to show ({MAKE_ONE}); or say --insecure "
        "(TRAINYARD_INSECURE=1), where all who reach it may do all that you may",
    )


class Server(uvicorn.Server):
    """uvicorn's server for our application, with four differences.

    What fails at the start is raised by `serve`, not logged; live streams are ended before connections are
    waited for; a signal that ended the server is not raised again, so that what was started is stopped; and
    connections are bounded, in number and in what they may make us wait for (`backend/sockets/`).
    """

    def __init__(self, app: FastAPI, settings: Settings, *, ready: Callable[[], None] = lambda: None) -> None:
        """`ready` is called when requests are answered."""
        self._app = app
        self._settings = settings
        self._ready = ready
        self._accepting: list[asyncio.Task[None]] = []
        quieten()
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                lifespan="off",
                log_level="warning",
                access_log=False,
                ws="none",
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=list(settings.proxies),
                timeout_graceful_shutdown=STREAMS_END_S,
            )
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end; returns when everything is stopped."""
        async with self._app.router.lifespan_context(self._app):
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        wanted, patience = self._settings.connections, self._patience()
        most = room_for(wanted)

        def connect() -> Punctual:
            return Punctual(self.config, self.server_state, self.lifespan.state, patience)

        self._accepting = [
            asyncio.create_task(
                accept(
                    sock,
                    connect,
                    self.server_state.connections,
                    most=most,
                    wanted=wanted,
                    make_room=lambda: make_room(self._connections()),
                ),
                name="accept",
            )
            for sock in sockets or []
        ]
        gc.collect()
        gc.freeze()  # modules, routes and schemas stay: to look at them again takes up to a tenth of a second
        gc.enable()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.context.hub.close()
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % LOOK_EVERY == 0:
            for connection in self._connections():
                connection.look()
        return await super().on_tick(counter)

    def _connections(self) -> list[Punctual]:
        return [one for one in self.server_state.connections if isinstance(one, Punctual)]

    def _patience(self) -> Patience:
        settings = self._settings
        return Patience(
            head_s=settings.request_seconds,
            bytes_per_s=settings.request_bytes_per_second,
            unread_s=settings.answer_seconds,
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # only there signals can be heard
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
