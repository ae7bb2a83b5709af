"""A server in a thread of this process: for commands that are both the service and its client."""

from __future__ import annotations

import threading
from socket import socket
from types import TracebackType

from backend.app import create_app
from backend.server import Server, listen
from backend.settings import Settings
from engine.errors import UserError

TRIES = 20
"""Ports that are tried, the wanted one first."""
START_LIMIT_S = 60
STOP_LIMIT_S = 20


class BackgroundServer:
    """`with BackgroundServer(settings) as server:` serves while the block runs, then stops.

    Listens on `settings.port` or the next free one; `settings` says which. Entering waits until requests are
    answered, and raises what kept the server from starting.
    """

    def __init__(self, wanted: Settings) -> None:
        """Takes the port at once. Raises UserError where none is free or the address is not ours."""
        self._socket = _listen(wanted)
        self.settings = wanted.model_copy(update={"port": self._socket.getsockname()[1]})
        self._ready = threading.Event()
        self._app = create_app(self.settings)
        self._server = Server(self._app, self.settings, ready=self._ready.set)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="server", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def fresh(self) -> str | None:
        """The first admin's token, where this start made it."""
        made: str | None = self._app.state.context.access.fresh
        return made

    @property
    def token(self) -> str | None:
        """What its client has to show, as far as this program knows."""
        return self.settings.own_token or self.fresh

    def wait(self, timeout_s: float) -> None:
        """Return when the server has ended, or after `timeout_s`."""
        self._thread.join(timeout_s)

    def __enter__(self) -> BackgroundServer:
        self._thread.start()
        if not self._ready.wait(START_LIMIT_S):
            raise TimeoutError(f"the server at {self.settings.address} was not ready after {START_LIMIT_S} s")
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S)

    def _serve(self) -> None:
        try:
            self._server.run([self._socket])
        except BaseException as error:
            self._failure = error
        finally:
            self._socket.close()
            self._ready.set()  # whoever waits for the start must hear of its failure


def _listen(settings: Settings) -> socket:
    last = settings.port + TRIES - 1 if settings.port else 0
    for port in range(settings.port, last):
        try:
            return listen(settings.host, port, for_others=settings.for_others)
        except UserError as error:
            if error.field != "port":
                raise
    return listen(settings.host, last, for_others=settings.for_others)
