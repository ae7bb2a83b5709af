"""What routes ask for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from backend.schemas.problems import Problem
from backend.services.context import Context


def _context(request: Request) -> Context:
    found = request.app.state.context
    assert isinstance(found, Context)
    return found


Services = Annotated[Context, Depends(_context)]
"""The running server's services."""
AttemptAsked = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="Number of an attempt, from 1; left out: the latest")
]
"""Which of a job's attempts."""
MOST_NS = 2**60
"""36 years: a screen's width on either side, and the clock's zero, must fit beside it into 64 bits."""
TimeAsked = Annotated[
    int | None, Query(ge=-MOST_NS, le=MOST_NS, description="Nanoseconds on the attempt's clock")
]
"""An end of a stretch of time."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route documents."""
    return {status: {"model": Problem} for status in statuses}
