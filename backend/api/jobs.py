"""Jobs: submit, list, show, cancel, plan."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse

from backend.api.deps import Services, problems
from backend.api.fields import of_items
from backend.schemas.base import SpecBody
from backend.schemas.jobs import AttemptPage, Job, JobPage, TransitionPage
from backend.schemas.lists import AttemptQuery, HistoryQuery, JobQuery
from backend.schemas.plans import PlanView

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.post("", status_code=201, responses={200: {"model": Job}, **problems(409, 415, 422, 503)})
def submit_job(
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


@router.get("", response_model=JobPage, responses=problems(422))
def list_jobs(services: Services, asked: Annotated[JobQuery, Query()]) -> JobPage | JSONResponse:
    """Jobs, newest first. With `fields`, items hold only these."""
    return of_items(services.lists.jobs(asked), asked.fields)


@router.get("/{job_id}", responses=problems(404))
def show_job(services: Services, job_id: str) -> Job:
    """One job with its plan, attempts and history."""
    return services.jobs.show(job_id)


@router.post("/{job_id}/cancel", responses=problems(404, 409, 415))
def cancel_job(services: Services, job_id: str) -> Job:
    """End a job: at once where it waits, else as soon as its processes are stopped. Ending it twice changes
    nothing."""
    return services.jobs.cancel(job_id)


@router.get("/{job_id}/plan", responses=problems(404))
def show_plan(services: Services, job_id: str) -> PlanView:
    """The plan that the job's strategy made."""
    return services.jobs.plan(job_id)


@router.get("/{job_id}/attempts", response_model=AttemptPage, responses=problems(404, 422))
def list_attempts(
    services: Services, job_id: str, asked: Annotated[AttemptQuery, Query()]
) -> AttemptPage | JSONResponse:
    """A job's attempts, newest first. With `fields`, items hold only these."""
    return of_items(services.lists.attempts(job_id, asked), asked.fields)


@router.get("/{job_id}/history", response_model=TransitionPage, responses=problems(404, 422))
def list_history(
    services: Services, job_id: str, asked: Annotated[HistoryQuery, Query()]
) -> TransitionPage | JSONResponse:
    """Every change of state of a job and of its attempts, oldest first. With `fields`, items hold only these."""
    return of_items(services.lists.history(job_id, asked), asked.fields)
