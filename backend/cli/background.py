"""A server in a thread of this process: for commands that are both the service and its client."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType

import uvicorn

from backend.app import create_app
from backend.settings import Settings

START_LIMIT_S = 60
STOP_LIMIT_S = 15


class StartError(RuntimeError):
    """The server did not start; the message says why, or where to look."""


class BackgroundServer:
    """`with BackgroundServer(settings) as server:` serves while the block runs, then stops.

    Listens on `settings.port`, or the next free one; `address` says where. Entering waits until requests are
    answered and raises StartError where that does not come true.
    """

    def __init__(self, settings: Settings, *, tries: int = 20) -> None:
        """Takes the port at once, so that nobody else can between choosing and listening."""
        self._socket = _listen(settings.host, settings.port, tries)
        port = self._socket.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"http://{host}:{port}"
        self.moved = port != settings.port
        """Whether the wanted port was taken."""
        app = create_app(settings.model_copy(update={"port": port}))
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3, access_log=False)
        self._server = uvicorn.Server(config)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="server", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> BackgroundServer:
        self._thread.start()
        deadline = time.monotonic() + START_LIMIT_S
        while not self._server.started:
            if not self._thread.is_alive():
                raise StartError(f"the server did not start: {self._failure or 'its own message is above'}")
            if time.monotonic() > deadline:
                raise StartError(f"the server at {self.address} was not ready after {START_LIMIT_S} s")
            time.sleep(0.02)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._socket.close()


def _listen(host: str, port: int, tries: int) -> socket.socket:
    """A listening socket on the first free port from `port` on. Raises StartError where none is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    candidates = range(port, min(port + tries, 65536)) if port else (0,)
    for candidate in candidates:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            reason = error
        else:
            return listener
    raise StartError(
        f"no free port from {port} to {candidates[-1]} on {host} ({reason}). Set TRAINYARD_PORT to another"
    )
