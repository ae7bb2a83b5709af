"""Whole numbers in addresses, as people and programs write them: decimal digits, after a minus where that is meant.

What turns text into a number reads `+4`, `01`, `1_0` and `4.0` as numbers, too, so that one thing would have many
addresses: a proxy's rule for one of them, and the audit log's entry of it, would not be about the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.errors import UserError

WRITTEN = re.compile(r"0|-?[1-9][0-9]*")
SHOWN = 40
"""Characters of a longer one that an error repeats."""


async def check_numbers(request: Request) -> None:
    """A dependency of every route. Raises UserError for a whole number of its address that is written otherwise, or is
    none."""
    route = request.scope["route"]
    in_path, in_query = _whole(route)
    for name in in_path:
        _check(name, request.scope["path_params"][name])
    for name in in_query:
        for text in request.query_params.getlist(name):
            _check(name, text)


def _check(name: str, given: object) -> None:
    text = str(given)
    if WRITTEN.fullmatch(text):
        return
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
    rule = "is no whole number in decimal digits, without plus, leading zeros, points, spaces or underscores"
    raise UserError(name, shown, rule, "Write it as 7, 0 or -7")


def _whole(route: APIRoute) -> tuple[Sequence[str], Sequence[str]]:
    """The names of a route's whole numbers: those of the path, and those of what follows it."""
    return (
        tuple(_names((field.alias, field.field_info) for field in route.dependant.path_params)),
        tuple(_names((field.alias, field.field_info) for field in route.dependant.query_params)),
    )


def _names(fields: Any) -> Iterator[str]:
    for name, field in fields:
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _names((each.alias or key, each) for key, each in kind.model_fields.items())
        elif _is_whole(field):
            yield name


def _is_whole(field: FieldInfo) -> bool:
    return int in (field.annotation, *get_args(field.annotation))
