"""Devices that are taken out of use, and given back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from backend.api.deps import Asks, Services, note, problems
from backend.schemas.maintenance import MaintenanceRequest, MaintenanceView
from backend.schemas.people import AuditDetails

router = APIRouter(prefix="/maintenance", tags=["maintenance"])


@router.get("")
def list_maintenance(services: Services) -> list[MaintenanceView]:
    """Devices that are out of use, or will be, and who is still on them; the oldest first."""
    return services.maintenance.all()


@router.post("", status_code=201, responses=problems(415, 422))
def begin_maintenance(
    services: Services, caller: Asks, asked: MaintenanceRequest, request: Request, response: Response
) -> MaintenanceView:
    """Take devices of this server, or a whole node, out of use, at once or from a moment on, until it is ended, or
    until its end. From now on no job starts on them that is not expected to have ended when it begins. Who runs there
    ends as ever, or makes room, as asked."""
    made = services.maintenance.begin(asked, caller.name)
    note(request, _of(made))
    response.headers["Location"] = f"/api/v1/maintenance/{made.id}"
    return made


@router.delete("/{maintenance_id}", status_code=204, responses=problems(404, 415))
def end_maintenance(
    services: Services, maintenance_id: Annotated[int, Path(ge=1, le=2**62)], request: Request
) -> None:
    """Give the devices back: jobs start on them again."""
    note(request, _of(services.maintenance.end(maintenance_id)))


def _of(maintenance: MaintenanceView) -> AuditDetails:
    named = "all devices" if maintenance.devices is None else ", ".join(maintenance.devices)
    whose = maintenance.server if maintenance.node is None else maintenance.node
    return AuditDetails(devices=f"{named} of {whose}", ends_at=maintenance.ends_at)
