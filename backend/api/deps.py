"""What routes ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from backend.access.rights import EVERYBODY, Caller
from backend.api.credentials import CALLER, DETAILS
from backend.schemas.people import AuditDetails
from backend.schemas.problems import Problem
from backend.services.asker import Asker
from backend.services.context import Context


def _context(request: Request) -> Context:
    found = request.app.state.context
    assert isinstance(found, Context)
    return found


Services = Annotated[Context, Depends(_context)]
"""The running server's services."""


def _caller(request: Request) -> Caller:
    found = request.scope.get(CALLER, EVERYBODY)
    assert isinstance(found, Caller)
    return found


Asks = Annotated[Caller, Depends(_caller)]
"""Who sent the request."""


def note(request: Request, details: AuditDetails | None) -> None:
    """The request's entry of the audit log is to say this, too."""
    request.scope[DETAILS] = details


async def _asker(request: Request) -> AsyncIterator[Asker]:
    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":  # the body has been read by now
            pass
        asker.leave()

    with closing(Asker()) as asker:
        watching = asyncio.create_task(watch(), name="watch a client")
        try:
            yield asker
        finally:
            watching.cancel()


Asking = Annotated[Asker, Depends(_asker)]
"""The client of a route that takes long, which is told when they leave."""
AttemptAsked = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="Number of an attempt, from 1; left out: the latest")
]
"""Which of a job's attempts."""
MOST_NS = 2**60
"""36 years: a screen's width on either side, and the clock's zero, must fit beside it into 64 bits."""
TimeAsked = Annotated[
    int | None, Query(ge=-MOST_NS, le=MOST_NS, description="Nanoseconds on the attempt's clock")
]
"""An end of a stretch of time."""


def shown_once(response: Response, address: str) -> None:
    """The answer is what was made there, with what nothing says again: nobody keeps a copy on the way."""
    response.headers["Location"] = address
    response.headers["Cache-Control"] = "no-store"


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route documents."""
    return {status: {"model": Problem} for status in statuses}
