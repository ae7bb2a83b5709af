"""Ways to begin, for who has an empty installation."""

from __future__ import annotations

from typing import Any

from backend.races.spec import MemberSpec
from backend.races.starts import Name
from backend.schemas.base import Schema


class StartEntry(Schema):
    """A race that is filled in as far as it can be without knowing the person."""

    name: Name
    title: str
    summary: str
    """What one gets, for who chooses."""
    job: dict[str, Any]
    """Fields of a job's specification, as far as they are known; those left out keep their defaults."""
    members: list[MemberSpec]
    """Who races."""
    rounds: int
    """How often each of them runs."""
