"""Telemetry in: batches and seals, with the attempt's own token."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Body, Header, Path, Request
from pydantic import Field

from backend.api.deps import Services, problems
from backend.api.guard import BATCH
from backend.schemas.ingest import Accepted, Sealed
from backend.services.ingest import MAX_BODY_BYTES, accept, authorize, needed, seal

router = APIRouter(prefix="/attempts/{attempt}", tags=["ingest"])
Authorization = Annotated[str, Header(include_in_schema=False)]
"""`Bearer` and the attempt's token, as the document's security scheme says."""

AttemptId = Annotated[int, Path(ge=1, le=2**62)]

BATCH_BODY = {
    "requestBody": {"required": True, "content": {BATCH: {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post(
    "/batches",
    responses=problems(400, 401, 409, 410, 413, 415),
    openapi_extra=BATCH_BODY,
    max_body_size=MAX_BODY_BYTES,
)
async def post_batch(
    services: Services, attempt: AttemptId, request: Request, authorization: Authorization = ""
) -> Accepted:
    """Store one batch; answered after the commit. The same batch again changes nothing."""
    token = _token(authorization)
    threads, database = services.ingest_threads, services.database
    await to_thread.run_sync(
        authorize, database, attempt, token, limiter=threads
    )  # a stranger's body is not read
    async with services.bodies.taken(_announced(request)):
        body = await request.body()
        size = await to_thread.run_sync(needed, body, limiter=threads)
        async with services.unpacked.taken(size):
            store = partial(accept, database, attempt, token, body, services.measures)
            return await to_thread.run_sync(store, limiter=threads)


@router.post("/seal", responses=problems(401, 409, 410, 415))
def seal_attempt(
    services: Services,
    attempt: AttemptId,
    last_sequences: Annotated[
        dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=-1)]],
        Body(description="Party number to its last sequence number, -1: none"),
    ],
    authorization: Authorization = "",
) -> Sealed:
    """Say that nothing follows; refused while a batch is missing."""
    return seal(services.database, attempt, _token(authorization), last_sequences)


def _announced(request: Request) -> int:
    """How long the body may be: what the framework refuses beyond that is not read."""
    length = request.headers.get("content-length", "")
    return min(int(length), MAX_BODY_BYTES) if length.isdecimal() and len(length) < 20 else MAX_BODY_BYTES


def _token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
