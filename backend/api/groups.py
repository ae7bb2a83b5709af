"""Groups of jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import Services, problems
from backend.schemas.jobs import JobGroups
from backend.schemas.lists import GroupQuery

router = APIRouter(prefix="/job-groups", tags=["jobs"])


@router.get("", responses=problems(422))
def list_job_groups(services: Services, asked: Annotated[GroupQuery, Query()]) -> JobGroups:
    """Jobs put together by model, strategy, tag or race, with how many there are of each: that with the newest job
    first. The jobs of a group are `GET /jobs` with that filter."""
    return services.labels.groups(asked)
