"""The live feed, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backend.api.deps import Services

router = APIRouter(prefix="/notices", tags=["notices"])


@router.get("", response_class=EventSourceResponse)
async def follow_notices(
    services: Services, last_event_id: Annotated[str | None, Header()] = None
) -> AsyncIterable[ServerSentEvent]:
    """What changes, while it changes: `job` (its state), `data` (its telemetry), `ready` (the stream has
    begun), `reset` (too much was missed: ask again for everything). Each carries an id to resume from."""
    await asyncio.to_thread(services.figures.make_ready)  # who opens a page asks for figures next
    async for event in services.hub.subscribe(last_event_id):
        yield ServerSentEvent(data=event.data, event=event.kind, id=str(event.id))
