"""Plan previews."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.body import SpecBody
from backend.api.deps import Services, problems
from backend.schemas.plans import PlanView

router = APIRouter(prefix="/plans", tags=["plans"])


@router.post("", responses=problems(415, 422, 503))
def preview_plan(services: Services, spec: SpecBody) -> PlanView:
    """The plan that a submission would get, stored nowhere; refused exactly where a submission would be."""
    return services.jobs.preview(spec)
