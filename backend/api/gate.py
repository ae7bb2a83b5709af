"""Who may pass, decided before anything of a request but its head is read.

Where the server asks who one is, the whole API but for the routers of `router.OPEN`, and every write wherever it goes,
is closed to whoever shows no credential (401), and to whoever has too small a right for the operation (403), by the
table in `backend/access/rights.py`. What is left is reading the page's files, which are the same for everybody.
"""

from __future__ import annotations

import time

from anyio import to_thread
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.access.rights import MEANS, OWN, Caller, least, may, one
from backend.api import router
from backend.api.credentials import CALLER, admit
from backend.api.guard import READS
from backend.api.problems import refusal
from backend.services.context import Context
from backend.services.errors import Forbidden, TooManyGuesses, TooManyRequests, Unauthorized
from backend.services.owners import owner_of

HAVE_BODY = frozenset({"content-length", "transfer-encoding"})
"""Requests with one of these headers."""


class Gate:
    """ASGI middleware, where the application's context has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _open(scope["method"], scope["path"]):
            request = HTTPConnection(scope)
            context: Context = scope["app"].state.context
            try:
                scope[CALLER] = caller = admit(context.access, request)
                _check_allowance(context, caller)
                await _check_rights(context, caller, scope["method"], scope["path"])
            except (Unauthorized, Forbidden, TooManyGuesses, TooManyRequests) as error:
                answer = refusal(error)
                if HAVE_BODY.intersection(request.headers):
                    answer.headers["Connection"] = "close"  # or a stranger could go on sending
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _open(method: str, path: str) -> bool:
    page = method in READS and path != "/api" and not path.startswith("/api/")
    return page or router.is_open(path)


def _check_allowance(context: Context, caller: Caller) -> None:
    """Raises TooManyRequests where the caller's token has made more than its share."""
    if caller.token_id is None:
        return
    if wait_s := context.access.allowances.wait_s(caller.token_id, time.monotonic()):
        most = context.settings.token_requests_per_second
        rule = (
            f"the token {caller.token_name!r} has made more than {most:g} requests in a second, for seconds"
        )
        raise TooManyRequests(f"{rule}. Ask again later, or more seldom", retry_after_s=wait_s)


async def _check_rights(context: Context, caller: Caller, method: str, path: str) -> None:
    """Raises Forbidden for an operation that the caller may not ask for. Where an address could be read as several
    operations, all of them count."""
    if caller.role == "admin":
        return
    for operation, parameters in router.operations(method, path):
        wanted = least(operation)
        if not may(caller.role, wanted):
            rule = f"{operation} is for {one(wanted)}, and {_shown(caller)} is {one(caller.role)}'s"
            remedy = "Ask an admin for another role, or show a token with a wider scope"
            raise Forbidden(f"{rule}, who may {MEANS[caller.role]}", remedy)
        if operation in OWN:
            owner = await to_thread.run_sync(
                owner_of, context.database, OWN[operation], parameters[OWN[operation]]
            )
            if owner not in (None, caller.name):
                rule = f"{operation}: this is {owner}'s, and a member may do so with their own only"
                raise Forbidden(rule, f"Ask {owner}, or an admin")


def _shown(caller: Caller) -> str:
    return "this token" if caller.ends_unix_ns is None else "this session"
