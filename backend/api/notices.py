"""The live feed, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.api.credentials import still_admitted
from backend.api.deps import Services, problems
from backend.api.problems import SHOWN
from backend.services.errors import BadRequest
from engine.errors import UserError

router = APIRouter(prefix="/notices", tags=["notices"])


MOST_ID = 2**63 - 1


def last_seen(
    last_event_id: Annotated[str | None, Header()] = None,
    last_event_id_asked: Annotated[
        str | None,
        Query(
            alias="last_event_id",
            max_length=100,
            description="For who cannot send the header, which counts where both are there",
        ),
    ] = None,
) -> int | None:
    """The id of the notice that the listener saw last. Raises BadRequest for what no notice has as its id."""
    # A browser that tries again asks the address that it began with, and the header is newer.
    given = last_event_id if last_event_id is not None else last_event_id_asked
    if given is None:
        return None
    if given.isascii() and given.isdecimal() and len(given) <= len(str(MOST_ID)) and int(given) <= MOST_ID:
        return int(given)
    shown = given if len(given) <= SHOWN else f"{given[:SHOWN]}... ({len(given)} characters)"
    rule = f"is no id of a notice, which is a whole number from 0 to {MOST_ID}"
    error = UserError("Last-Event-ID", shown, rule, "Send the id of the last event, or none to begin now")
    raise BadRequest(str(error), [error])


@router.get("", response_class=EventSourceResponse, responses=problems(400))
async def follow_notices(
    services: Services, request: Request, seen: Annotated[int | None, Depends(last_seen)]
) -> AsyncIterable[ServerSentEvent]:
    """What changes, while it changes: `job` (its state), `data` (its telemetry), `ready` (the stream has
    begun), `reset` (too much was missed: ask again for everything). Each carries an id to resume from."""
    await asyncio.to_thread(services.figures.make_ready)  # who opens a page asks for figures next
    async for event in services.hub.subscribe(seen):
        if not still_admitted(services.access, request):
            return
        yield ServerSentEvent(data=event.data, event=event.kind, id=str(event.id))
