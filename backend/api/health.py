"""Health."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.deps import Services
from backend.schemas.health import Health
from backend.services.health import check

router = APIRouter(prefix="/health", tags=["health"])


@router.get("")
def show_health(services: Services) -> Health:
    """Whether the service works."""
    return check(services)
