"""Running the application: a socket, a uvicorn server that ends cleanly, and errors that say what to do."""

from __future__ import annotations

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
from engine.errors import UserError

STREAMS_END_S = 5
"""How long open requests may take after the server was told to end."""


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
    """uvicorn's server for our application, with three differences.

    What fails at the start is raised by `serve`, not logged; live streams are ended before connections are
    waited for; and a signal that ended the server is not raised again, so that what was started is stopped.
    """

    def __init__(self, app: FastAPI, *, ready: Callable[[], None] = lambda: None) -> None:
        """`ready` is called when requests are answered."""
        self._app = app
        self._ready = ready
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_level="warning",
                access_log=False,
                ws="none",
                timeout_graceful_shutdown=STREAMS_END_S,
            )
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end; returns when everything is stopped."""
        async with self._app.router.lifespan_context(self._app):
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # modules, routes and schemas stay: to look at them again takes up to a tenth of a second
        gc.enable()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.context.hub.close()
        await super().shutdown(sockets)

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
