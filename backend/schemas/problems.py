"""Errors as RFC 9457 problem details, each naming the field, its value, the rule and the remedy."""

from __future__ import annotations

from typing import Any

from backend.schemas.base import Schema


class FieldProblem(Schema):
    """One thing that is wrong with a request."""

    field: str
    """Dotted path into the body, e.g. `cluster.workers`; or a query parameter. Empty: the whole request."""
    value: Any = None
    """What was given."""
    rule: str
    """What it breaks."""
    remedy: str
    """What to do."""


class Problem(Schema):
    """An error response, `application/problem+json`."""

    type: str = "about:blank"
    """`/problems/<kind>`: stable, for programs."""
    title: str
    """The kind of error, for people."""
    status: int
    """The HTTP status, repeated."""
    detail: str
    """This error, in one or two sentences."""
    errors: list[FieldProblem] = []
    """What is wrong, one by one."""
