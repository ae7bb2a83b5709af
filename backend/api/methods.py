"""Which methods an address of the API has: what HTTP (RFC 9110, section 9) asks of every server, whatever the route.

HEAD is GET without the content. A method that an address does not have is a 405 that lists those it has, and an address
without any is a 404, which the page's own answer would otherwise hide.
"""

from __future__ import annotations

import anyio.lowlevel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api import router
from backend.api.problems import problem


class Methods:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{router.PREFIX}/"):
            method, has = scope["method"], router.methods(scope["path"])
            if method not in has:
                answer = _refused(method, scope["path"], has)
            elif method == "HEAD":
                answer = self._head
        await answer(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What GET answers, to the end of its headers: the feed's content has no end."""
        with anyio.CancelScope() as content:

            async def begin(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.start":
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    content.cancel()
                    await anyio.lowlevel.checkpoint()  # where the route ends

            await self.app({**scope, "method": "GET"}, receive, begin)


def _refused(method: str, path: str, has: list[str]) -> ASGIApp:
    if not has:
        detail = f"{method} {path}: no such resource. See {router.DOCUMENT}"
        return problem(404, "not-found", "Not Found", detail)
    listed = ", ".join(has)
    detail = f"{method} {path}: this resource only has {listed}"
    return problem(405, "method-not-allowed", "Method Not Allowed", detail, headers={"Allow": listed})
