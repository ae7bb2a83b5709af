"""Maintenance, as methods of the client."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backend.connection import Connection
from backend.schemas.maintenance import MaintenanceView


class MaintenanceClient(Connection):
    """Devices that are taken out of use, and given back."""

    def maintenance(self) -> list[MaintenanceView]:
        """Those that are out of use, or will be, and who is still on them."""
        return self._list(MaintenanceView, "/maintenance")

    def begin_maintenance(
        self,
        devices: Sequence[str] | None = None,
        *,
        begins_at: datetime | None = None,
        makes_room: bool = False,
        note: str | None = None,
    ) -> MaintenanceView:
        """Take devices of the server out of use, until it is ended. `devices`: None: all. `begins_at`: None: at once.
        `makes_room`: jobs with checkpoints end with one then. For admins."""
        asked = {
            "devices": None if devices is None else list(devices),
            "begins_at": None if begins_at is None else begins_at.isoformat(),
            "makes_room": makes_room,
            "note": note,
        }
        return self._read(MaintenanceView, "POST", "/maintenance", json=asked)

    def end_maintenance(self, number: int) -> None:
        """Give the devices back, by its number. For admins."""
        self._send("DELETE", f"/maintenance/{number}", json={})
