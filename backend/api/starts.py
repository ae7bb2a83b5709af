"""Ways to begin."""

from __future__ import annotations

from fastapi import APIRouter

from backend.schemas.starts import StartEntry
from backend.services import starts

router = APIRouter(prefix="/starts", tags=["templates"])


@router.get("")
def list_starts() -> list[StartEntry]:
    """Races to begin with, each filled in as far as it can be. A form shows them, and sends what becomes of one."""
    return starts.listed()
