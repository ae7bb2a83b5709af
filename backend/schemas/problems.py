"""Errors as RFC 9457 problem details, each naming the field, its value, the rule and the remedy."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class FieldProblem(BaseModel):
    """One thing that is wrong with a request."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    field: str
    """Dotted path into the body, e.g. `cluster.workers`; or a query parameter. Empty: the whole request."""
    value: Any = None
    """What was given."""
    rule: str
    """What it breaks."""
    remedy: str
    """What to do."""


class Problem(BaseModel):
    """An error response, `application/problem+json`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

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
