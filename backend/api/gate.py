"""Who may pass, decided before anything of a request but its head is read.

Where the server has a token, the whole API but for the routers of `router.OPEN`, and every write wherever it goes, is
closed to whoever shows no credential. What is left is reading the page's files, which are the same for everybody.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.api.credentials import admit
from backend.api.guard import READS
from backend.api.problems import refusal
from backend.api.router import is_open
from backend.services.errors import TooManyGuesses, Unauthorized

HAVE_BODY = frozenset({"content-length", "transfer-encoding"})
"""Requests with one of these headers."""


class Gate:
    """ASGI middleware, where the application's context has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _open(scope["method"], scope["path"]):
            request = HTTPConnection(scope)
            try:
                admit(scope["app"].state.context.access, request)
            except (Unauthorized, TooManyGuesses) as error:
                answer = refusal(error)
                if HAVE_BODY.intersection(request.headers):
                    answer.headers["Connection"] = "close"  # or a stranger could go on sending
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _open(method: str, path: str) -> bool:
    page = method in READS and path != "/api" and not path.startswith("/api/")
    return page or is_open(path)
