"""What every JSON body must satisfy, whatever the route makes of it; and the body that is a job specification."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Request
from pydantic import PlainValidator
from starlette.datastructures import Headers

from backend.api.guard import JSON, READS
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain

MOST_LEVELS = 64
"""Of objects and lists in one another. A specification has a few; what walks through it takes a frame or two of the
interpreter's stack for each."""


def _specification(data: Any) -> JobSpec:
    """The engine's own reader: the same strictness and the same messages in API, terminal and workers."""
    return from_plain(JobSpec, data)


SpecBody = Annotated[
    JobSpec,
    PlainValidator(_specification, json_schema_input_type=JobSpec),
    Body(description="The job's specification"),
]
"""A request body that is a job specification."""


async def check_body(request: Request) -> None:
    """A dependency of every route but those of telemetry. Raises UserError for a body that is nested deeper than
    MOST_LEVELS or holds a NUL character, which PostgreSQL stores in no text: one such job would break every search over
    all of them."""
    if request.method in READS or not _is_json(request.headers) or not await request.body():
        return
    try:
        found = await request.json()
    except (ValueError, RecursionError):
        return  # a route that wants a body has refused it by now
    check(found)


def check(data: Any) -> None:
    """Raises as `check_body` does, at the field."""
    waiting: list[tuple[str, int, Any]] = [("", 1, data)]
    while waiting:
        field, level, value = waiting.pop()
        if isinstance(value, str):
            if "\0" in value:
                raise UserError(field, value, "holds a NUL character", "Leave it out")
            continue
        if not isinstance(value, dict | list):
            continue
        if level > MOST_LEVELS:
            rule = f"is nested deeper than {MOST_LEVELS} levels"
            raise UserError(field, "the body", rule, "Use fewer levels; a job has a few")
        if isinstance(value, list):
            waiting += [(field, level + 1, item) for item in value]
            continue
        for name, item in value.items():
            waiting += [(field, level, name), (f"{field}.{name}" if field else name, level + 1, item)]


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
