"""Jobs: submit, clone, list, show, label, cancel, delete, plan."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from backend.api.body import SpecBody
from backend.api.deps import Asking, Asks, Services, note, problems
from backend.api.fields import of_items
from backend.schemas.jobs import (
    AttemptPage,
    BaselineRequest,
    Deletion,
    Job,
    JobPage,
    Labels,
    TransitionPage,
)
from backend.schemas.lists import AttemptQuery, HistoryQuery, JobQuery
from backend.schemas.people import AuditDetails
from backend.schemas.plans import PlanView
from backend.services.jobs import SpecForm

router = APIRouter(prefix="/jobs", tags=["jobs"])
Changes = Annotated[
    dict[str, Any],
    Body(
        description="A JSON merge patch of the specification: what it names replaces what was there, object by object; "
        "null gives a field its default. `{}` changes nothing but the name."
    ),
]


@router.post("", status_code=201, responses={200: {"model": Job}, **problems(409, 415, 422, 503)})
def submit_job(
    services: Services,
    spec: SpecBody,
    response: Response,
    asker: Asking,
    caller: Asks,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Job:
    """Submit a job. Repeated under the same `Idempotency-Key` it answers the same job (200); with another
    body 409."""
    return _submitted(services.jobs.submit(spec, idempotency_key, asker, caller=caller), response)


@router.post(
    "/{job_id}/clone", status_code=201, responses={200: {"model": Job}, **problems(404, 409, 415, 422, 503)}
)
def clone_job(
    services: Services,
    job_id: str,
    response: Response,
    changes: Changes,
    asker: Asking,
    caller: Asks,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Job:
    """Submit a job's specification once more, with `changes` to it."""
    return _submitted(services.jobs.clone(job_id, changes, idempotency_key, asker, caller=caller), response)


@router.get("", response_model=JobPage, responses=problems(422))
def list_jobs(services: Services, asked: Annotated[JobQuery, Query()]) -> JobPage | JSONResponse:
    """Jobs, newest first or as `sort` says. With `fields`, items hold only these."""
    return of_items(services.lists.jobs(asked), asked.fields)


@router.get("/{job_id}", responses=problems(404))
def show_job(services: Services, job_id: str) -> Job:
    """One job with its plan, attempts and history."""
    return services.jobs.show(job_id)


@router.patch("/{job_id}", responses=problems(404, 415, 422))
def label_job(services: Services, job_id: str, said: Labels, request: Request) -> Job:
    """Give a job tags, or a note. What the body leaves out stays as it is."""
    note(request, services.labels.change(job_id, said))
    return services.jobs.show(job_id)


@router.put("/{job_id}/baseline", responses=problems(404, 415, 422))
def choose_baseline(services: Services, job_id: str, asked: BaselineRequest, request: Request) -> Job:
    """Measure the job's speed-up against another job, or against none: what was stored is measured again."""
    former = services.jobs.choose_baseline(job_id, asked.baseline)
    note(request, AuditDetails(baseline=asked.baseline, former_baseline=former))
    return services.jobs.show(job_id)


@router.post("/{job_id}/cancel", responses=problems(404, 409, 415))
def cancel_job(services: Services, job_id: str) -> Job:
    """End a job: at once where it waits, else as soon as its processes are stopped. Ending it twice changes
    nothing."""
    return services.jobs.cancel(job_id)


@router.post("/{job_id}/preempt", responses=problems(404, 409, 415, 422))
def preempt_job(services: Services, job_id: str, request: Request) -> Job:
    """Let a job that runs, and has checkpoints, make room for others: it ends its attempt with one as soon as it can,
    waits in the queue behind the others of its priority, and goes on from there. Asking twice changes nothing."""
    job = services.jobs.preempt(job_id)
    note(request, AuditDetails(attempt=job.attempts[-1].number))
    return job


@router.delete(
    "/{job_id}",
    status_code=204,
    responses={
        204: {"description": "It is gone."},
        202: {"model": Deletion, "description": "A part of it is gone: ask again for the rest."},
        **problems(404, 409, 415, 503),
    },
)
def delete_job(services: Services, job_id: str) -> Response:
    """Remove a job that has ended: its figures, logs, results and files. Jobs whose baseline it was have none from
    then on. Of a job with much telemetry a part is removed, for some seconds; ask again until it is gone."""
    left = services.jobs.delete(job_id)
    return Response(status_code=204) if left is None else JSONResponse(left.model_dump(), status_code=202)


@router.get("/{job_id}/plan", responses=problems(404))
def show_plan(services: Services, job_id: str) -> PlanView:
    """The plan that the job's strategy made."""
    return services.jobs.plan(job_id)


@router.get(
    "/{job_id}/specification",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(404, 422)},
)
def show_specification(
    services: Services,
    job_id: str,
    form: Annotated[SpecForm, Query(description="How it is written")] = "yaml",
    whole: Annotated[
        bool, Query(description="Every field; else only those that have not their defaults")
    ] = False,
) -> PlainTextResponse:
    """What the job was asked to be, as text that can be submitted again."""
    return PlainTextResponse(services.jobs.specification(job_id, form, whole=whole))


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


def _submitted(answer: tuple[Job, bool], response: Response) -> Job:
    job, new = answer
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/api/v1/jobs/{job.id}"
    return job
