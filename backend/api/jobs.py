"""Jobs: submit, list, show, cancel, plan."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from backend.api.deps import Services, problems
from backend.schemas.base import SpecBody
from backend.schemas.jobs import Job, JobPage
from backend.schemas.plans import PlanView

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.post("", status_code=201, responses={200: {"model": Job}, **problems(409, 415, 422, 503)})
def submit(
    services: Services,
    spec: SpecBody,
    response: Response,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Job:
    """Submit a job. Repeated under the same `Idempotency-Key` it answers the same job (200); with another
    body 409."""
    job, new = services.jobs.submit(spec, idempotency_key)
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    return job


@router.get("", responses=problems(422))
def index(
    services: Services,
    *,
    state: Annotated[str | None, Query(description="One state, or several with commas")] = None,
    strategy: str | None = None,
    model: Annotated[str | None, Query(description="Name or entry point")] = None,
    text: Annotated[str | None, Query(description="Part of a name, or an id", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
) -> JobPage:
    """Jobs, newest first."""
    return services.jobs.list(
        state=state, strategy=strategy, model=model, text=text, limit=limit, cursor=cursor
    )


@router.get("/{job_id}", responses=problems(404))
def show(services: Services, job_id: str) -> Job:
    """One job with its plan, attempts and history."""
    return services.jobs.show(job_id)


@router.post("/{job_id}/cancel", responses=problems(404, 409, 415))
def cancel(services: Services, job_id: str) -> Job:
    """End a job: at once where it waits, else as soon as its processes are stopped. Ending it twice changes
    nothing."""
    return services.jobs.cancel(job_id)


@router.get("/{job_id}/plan", responses=problems(404))
def plan(services: Services, job_id: str) -> PlanView:
    """The plan that the job's strategy made."""
    return services.jobs.plan(job_id)
