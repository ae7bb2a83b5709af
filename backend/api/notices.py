"""The live feed, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.api.deps import Services

router = APIRouter(prefix="/notices", tags=["notices"])


@router.get("", response_class=EventSourceResponse)
async def follow_notices(
    services: Services,
    last_event_id: Annotated[str | None, Header()] = None,
    last_event_id_asked: Annotated[
        str | None,
        Query(
            alias="last_event_id",
            max_length=100,
            description="For who cannot send the header, which counts where both are there",
        ),
    ] = None,
) -> AsyncIterable[ServerSentEvent]:
    """What changes, while it changes: `job` (its state), `data` (its telemetry), `ready` (the stream has
    begun), `reset` (too much was missed: ask again for everything). Each carries an id to resume from."""
    # A browser that tries again asks the address that it began with, and the header is newer.
    last_seen = last_event_id if last_event_id is not None else last_event_id_asked
    await asyncio.to_thread(services.figures.make_ready)  # who opens a page asks for figures next
    async for event in services.hub.subscribe(last_seen):
        yield ServerSentEvent(data=event.data, event=event.kind, id=str(event.id))
