"""The outermost middleware: every answer is counted for `GET /metrics`, and that address itself is known.

Prometheus asks `/metrics` unless it is told otherwise. It is the API's own operation under a second address: renamed
before anything else looks at the request, so that the gate, the limits and the log treat both alike.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api import router
from backend.services.measures import Measures

ALSO = {"/metrics": f"{router.PREFIX}/metrics"}
"""Addresses outside of the API, and the ones that they stand for."""


class Measured:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self.app = app
        self.measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if (meant := ALSO.get(scope["path"])) is not None:
            scope = {**scope, "path": meant, "raw_path": meant.encode()}
        began, answered = time.perf_counter(), False

        def count(status: int) -> None:
            nonlocal answered
            if not answered:
                answered = True
                seconds = time.perf_counter() - began
                self.measures.answered(_operation(scope["method"], scope["path"]), status, seconds)

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, send_and_count)
        except Exception:  # a bug, which is answered further out
            count(500)
            raise


def _operation(method: str, path: str) -> str:
    """A label with few values, whatever strangers ask for."""
    if path != "/api" and not path.startswith("/api/"):
        return "page"
    if path == router.DOCUMENT:
        return "openapi"
    found = router.operations(method, path)
    return found[0][0] if found else "none"
