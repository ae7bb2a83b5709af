"""Projects, which share the devices."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from backend.api.deps import Services, problems
from backend.schemas import patterns
from backend.schemas.projects import ProjectRequest, ProjectView

router = APIRouter(prefix="/projects", tags=["projects"])


@router.get("")
def list_projects(services: Services) -> list[ProjectView]:
    """Every project with its quota and weight, and what it holds and has used."""
    return services.projects.all()


@router.put("/{project}", responses=problems(415, 422))
def put_project(
    services: Services, project: Annotated[str, Path(pattern=patterns.PROJECT)], asked: ProjectRequest
) -> ProjectView:
    """Make a project, or give it another quota and weight. Jobs name it (`project`); what they hold counts against the
    quota, and what they used says whose turn it is."""
    return services.projects.put(project, asked)


@router.delete("/{project}", status_code=204, responses=problems(404, 409, 415))
def remove_project(services: Services, project: str) -> None:
    """Remove a project of which no job waits or runs. What its jobs did stays under its name."""
    services.projects.remove(project)
