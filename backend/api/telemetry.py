"""Metrics, events, logs and summary of one job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import Services, problems
from backend.schemas.telemetry import Events, Logs, Metrics, Recording, RecordRequest, Summary

router = APIRouter(prefix="/jobs/{job_id}", tags=["telemetry"])
Step = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


@router.get("/metrics", responses=problems(404, 422))
def metrics(
    services: Services, job_id: str, name: Annotated[str | None, Query(description="One series only")] = None
) -> Metrics:
    """Loss, throughput, iteration time, accuracy and whatever else was measured, thinned to 2,000 points
    each."""
    return services.telemetry.metrics(job_id, name)


@router.get("/events", responses=problems(404, 422))
def events(
    services: Services,
    job_id: str,
    *,
    worker: Annotated[int | None, Query(ge=0, le=2**15 - 1, description="Party number")] = None,
    step_from: Step = None,
    step_to: Step = None,
    limit: Annotated[int, Query(ge=1, le=20_000)] = 20_000,
) -> Events:
    """Detailed events as columns; without a range of steps, those of the ten newest."""
    return services.telemetry.events(job_id, worker=worker, step_from=step_from, step_to=step_to, limit=limit)


@router.post("/record", responses=problems(404, 409, 415, 422))
def record(services: Services, job_id: str, asked: RecordRequest) -> Recording:
    """Keep every event of the next steps of a running job."""
    return services.telemetry.record(job_id, asked.steps)


@router.get("/logs", responses=problems(404, 422))
def logs(
    services: Services,
    job_id: str,
    party: Annotated[str | None, Query(description="E.g. `worker 0`, which is the default")] = None,
    offset: Annotated[int, Query(ge=-(2**62), le=2**62, description="In bytes; negative: from the end")] = 0,
    limit: Annotated[int, Query(ge=16, le=1 << 20, description="In bytes")] = 1 << 16,
) -> Logs:
    """What one process printed."""
    return services.telemetry.logs(job_id, party=party, offset=offset, limit=limit)


@router.get("/summary", responses=problems(404))
def summary(
    services: Services,
    job_id: str,
    baseline: Annotated[
        str | None, Query(description="Compare with this job instead of the job's own baseline")
    ] = None,
) -> Summary:
    """The job's figures: medians over a window, warm-up left out."""
    return services.telemetry.summary(job_id, baseline)
