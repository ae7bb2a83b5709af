"""Devices that are taken out of use, and given back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from backend.api.deps import Asks, Services, problems
from backend.schemas.maintenance import MaintenanceRequest, MaintenanceView

router = APIRouter(prefix="/maintenance", tags=["maintenance"])


@router.get("")
def list_maintenance(services: Services) -> list[MaintenanceView]:
    """Devices that are out of use, or will be, and who is still on them; the oldest first."""
    return services.maintenance.all()


@router.post("", status_code=201, responses=problems(415, 422))
def begin_maintenance(
    services: Services, caller: Asks, asked: MaintenanceRequest, response: Response
) -> MaintenanceView:
    """Take devices of this server out of use, at once or from a moment on, until it is ended. From now on no job starts
    on them that is not expected to have ended by then. Who runs there ends as ever, or makes room, as asked."""
    made = services.maintenance.begin(asked, caller.name)
    response.headers["Location"] = f"/api/v1/maintenance/{made.id}"
    return made


@router.delete("/{maintenance_id}", status_code=204, responses=problems(404, 415))
def end_maintenance(services: Services, maintenance_id: Annotated[int, Path(ge=1, le=2**62)]) -> None:
    """Give the devices back: jobs start on them again."""
    services.maintenance.end(maintenance_id)
