"""What routes ask for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from backend.schemas.problems import Problem
from backend.services.context import Context


def _context(request: Request) -> Context:
    found = request.app.state.context
    assert isinstance(found, Context)
    return found


Services = Annotated[Context, Depends(_context)]
"""The running server's services."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route documents."""
    return {status: {"model": Problem} for status in statuses}
