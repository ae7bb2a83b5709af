"""Every write into the audit log, whatever its route: a route that somebody adds is recorded, too.

Telemetry is not: attempts send it, not people. What is asked by POST and changes nothing is left out by
`rights.CHANGE_NOTHING`; signing in and out is recorded where it is known who does (`session.py`).
"""

from __future__ import annotations

import asyncio
import logging

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.access.rights import CHANGE_NOTHING, EVERYBODY
from backend.api import router
from backend.api.credentials import CALLER, DETAILS, client_of
from backend.api.guard import READS
from backend.services.errors import DatabaseUnavailableError, WriterError

logger = logging.getLogger(__name__)


class Recorder:
    """ASGI middleware, behind the gate."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = _recorded(scope) if scope["type"] == "http" else None
        if operation is None:
            await self.app(scope, receive, send)
            return

        answered = False

        async def record_and_send(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                target = Headers(raw=message["headers"]).get("location") or scope["path"]
                await _record(scope, operation, target, message["status"])
            await send(message)

        try:
            await self.app(scope, receive, record_and_send)
        except Exception:  # a bug, which is answered further out: it may have been done before
            if not answered:
                await _record(scope, operation, scope["path"], 500)
            raise


def target_of(address: str) -> str:
    """`jobs/<id>`, of an address of the API about a job; `jobs` of one about all."""
    return "/".join(address.removeprefix(f"{router.PREFIX}/").split("/")[:2])


def _recorded(scope: Scope) -> str | None:
    method, path = scope["method"], scope["path"]
    if method in READS or router.is_open(path):
        return None
    names = [name for name, _ in router.operations(method, path) if name not in CHANGE_NOTHING]
    return names[0] if names else None


async def _record(scope: Scope, operation: str, target: str, status: int) -> None:
    audit, caller = scope["app"].state.context.audit, scope.get(CALLER, EVERYBODY)
    address = client_of(HTTPConnection(scope))
    try:
        stored = audit.add(caller, operation, target_of(target), address, status, scope.get(DETAILS))
        await asyncio.shield(asyncio.wrap_future(stored))  # also where the client leaves meanwhile
    except (DatabaseUnavailableError, WriterError) as error:  # it was done, and whoever did it is to know
        who = caller.name or "somebody"
        logger.error(
            "not in the audit log: %s asked for %s of %r: %s", who, operation, target_of(target), error
        )
