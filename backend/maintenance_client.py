"""Nodes and maintenance, as methods of the client."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backend.connection import Connection
from backend.schemas.maintenance import MaintenanceView
from backend.schemas.nodes import NodeView


class MaintenanceClient(Connection):
    """Machines with devices, which are taken out of use, and given back."""

    def nodes(self) -> list[NodeView]:
        """The machines on which jobs are placed, what each has, and who is on it."""
        return self._list(NodeView, "/nodes")

    def maintenance(self) -> list[MaintenanceView]:
        """Those that are out of use, or will be, and who is still on them."""
        return self._list(MaintenanceView, "/maintenance")

    def begin_maintenance(
        self,
        devices: Sequence[str] | None = None,
        *,
        node: str | None = None,
        begins_at: datetime | None = None,
        ends_at: datetime | None = None,
        makes_room: bool = False,
        note: str | None = None,
    ) -> MaintenanceView:
        """Take devices of the server out of use, until it is ended. `devices`: None: all. `node`: in place of them a
        node as a whole, by its name or number. `begins_at`: None: at once. `ends_at`: None: when somebody ends it.
        `makes_room`: jobs with checkpoints end with one then. For admins."""
        asked = {
            "devices": None if devices is None else list(devices),
            "node": node,
            "begins_at": None if begins_at is None else begins_at.isoformat(),
            "ends_at": None if ends_at is None else ends_at.isoformat(),
            "makes_room": makes_room,
            "note": note,
        }
        return self._read(MaintenanceView, "POST", "/maintenance", json=asked)

    def end_maintenance(self, number: int) -> None:
        """Give the devices back, by its number. For admins."""
        self._send("DELETE", f"/maintenance/{number}", json={})
