"""Projects, as methods of the client."""

from __future__ import annotations

from urllib.parse import quote

from backend.connection import Connection
from backend.schemas.projects import ProjectRequest, ProjectView


class ProjectsClient(Connection):
    """Who shares the devices, and how."""

    def projects(self) -> list[ProjectView]:
        """Every project, with what it holds and has used."""
        return self._list(ProjectView, "/projects")

    def put_project(
        self,
        name: str,
        *,
        weight: float = 1.0,
        cpu: int | None = None,
        cuda: int | None = None,
        rehearsal: int | None = None,
    ) -> ProjectView:
        """Make a project, or change it: its weight, and the most devices of each kind that it may hold (None: no
        limit). For admins."""
        asked = ProjectRequest(weight=weight, cpu=cpu, cuda=cuda, rehearsal=rehearsal)
        path = f"/projects/{quote(name, safe='')}"
        return self._read(ProjectView, "PUT", path, json=asked.model_dump(mode="json"))

    def remove_project(self, name: str) -> None:
        """Remove one of which no job waits or runs. For admins."""
        self._send("DELETE", f"/projects/{quote(name, safe='')}", json={})
