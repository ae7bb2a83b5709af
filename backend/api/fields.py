"""Field selection: an answer with only what was asked for, where a list has many rows and a program needs little."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Annotated, Any, TypeVar, get_args

from fastapi import Query
from fastapi.responses import JSONResponse

from backend.schemas.base import Schema
from engine.errors import UnknownNameError

S = TypeVar("S", bound=Schema)
ItemFields = Annotated[
    str | None,
    Query(
        max_length=2_000,
        description="Only these fields of every item, with commas, e.g. `id,name,state`; left out: all",
    ),
]
Columns = Annotated[
    str | None,
    Query(max_length=2_000, description="Only these columns, with commas, e.g. `kind,start_ns,end_ns`"),
]


def of_items(page: S, fields: str | None) -> S | JSONResponse:
    """A page, its items with these fields only. Raises UnknownNameError listing the fields that items have."""
    if fields is None:
        return page
    (item,) = get_args(type(page).model_fields["items"].annotation)
    include: dict[str, Any] = {"items": {"__all__": _chosen(fields, item.model_fields)}, "next_cursor": True}
    return JSONResponse(page.model_dump(mode="json", include=include))


def of_columns(answer: S, fields: str | None, always: AbstractSet[str]) -> S | JSONResponse:
    """Columns, these only, beside what is `always` answered. Raises UnknownNameError listing the columns."""
    if fields is None:
        return answer
    columns = [name for name in type(answer).model_fields if name not in always]
    return JSONResponse(answer.model_dump(mode="json", include=_chosen(fields, columns) | always))


def _chosen(fields: str, known: AbstractSet[str] | list[str] | dict[str, object]) -> set[str]:
    names = {name for each in fields.split(",") if (name := each.strip())}
    for name in sorted(names):
        if name not in known:
            raise UnknownNameError("fields", name, "field", known)
    return names
