"""Metrics, events, logs and summary of one job."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, StreamingResponse

from backend.api.deps import AttemptAsked, Services, TimeAsked, problems
from backend.api.fields import of_columns
from backend.schemas.links import LinkQuery, Links
from backend.schemas.lists import EventQuery
from backend.schemas.memory import JobMemory
from backend.schemas.staleness import Staleness, StalenessQuery
from backend.schemas.stretch import LinkStretch, StretchQuery
from backend.schemas.telemetry import (
    Events,
    Logs,
    MetricNames,
    Metrics,
    Recording,
    RecordRequest,
    SpeedUps,
    Summary,
)

router = APIRouter(prefix="/jobs/{job_id}", tags=["telemetry"])
BESIDE_COLUMNS = frozenset(
    {
        "rehearsed",
        "slowed",
        "layers",
        "layer_names",
        "parties",
        "kinds",
        "newest_step",
        "truncated",
        "next_cursor",
    }
)
"""Of an answer with events."""
StepAsked = Annotated[int | None, Query(ge=0, le=2**31 - 1)]
TRACE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/json": {"schema": {"type": "object"}}},
        "description": "A trace in Chrome's JSON object format",
    }
}
LOG_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The log"}
}


@router.get("/metrics", responses=problems(404, 422))
def show_metrics(
    services: Services,
    job_id: str,
    name: Annotated[str | None, Query(description="One series only", max_length=100)] = None,
    attempt: AttemptAsked = None,
    step_from: StepAsked = None,
    step_to: StepAsked = None,
) -> Metrics:
    """Loss, throughput, iteration time, accuracy and whatever else was measured, thinned to 2,000 points
    each; a range of steps keeps more of its own."""
    return services.telemetry.metrics(job_id, name, attempt, step_from, step_to)


@router.get("/metrics/names", responses=problems(404, 422))
def list_metrics(services: Services, job_id: str, attempt: AttemptAsked = None) -> MetricNames:
    """The series that a job has, by name."""
    return services.telemetry.metric_names(job_id, attempt)


@router.get("/events", response_model=Events, responses=problems(404, 422))
def list_events(
    services: Services, job_id: str, asked: Annotated[EventQuery, Query()]
) -> Events | JSONResponse:
    """Detailed events as columns, in order of their start; without a range of steps, those of the ten newest.
    With `fields`, only these columns."""
    return of_columns(services.telemetry.events(job_id, asked), asked.fields, BESIDE_COLUMNS)


@router.get("/trace", response_class=StreamingResponse, responses={**TRACE, **problems(404, 422)})
def export_trace(
    services: Services,
    job_id: str,
    attempt: AttemptAsked = None,
    step_from: StepAsked = None,
    step_to: StepAsked = None,
    from_ns: TimeAsked = None,
    to_ns: TimeAsked = None,
) -> StreamingResponse:
    """The timeline as a trace that ui.perfetto.dev and chrome://tracing open: a process for every party, a thread for
    every track. With a stretch of time, every step of which a part lies in it; without one and without a range of
    steps, the ten newest."""
    pieces = services.telemetry.trace(job_id, attempt, step_from, step_to, from_ns, to_ns)
    named = {"Content-Disposition": 'attachment; filename="trace.json"'}
    return StreamingResponse(pieces, media_type="application/json", headers=named)


@router.post("/record", responses=problems(404, 409, 415, 422, 503))
def record_steps(services: Services, job_id: str, asked: RecordRequest) -> Recording:
    """Keep every event of the next steps of a running job."""
    return services.telemetry.record(job_id, asked.steps)


@router.get("/speed-ups", responses=problems(404, 422))
def list_speed_ups(services: Services, job_id: str, attempt: AttemptAsked = None) -> SpeedUps:
    """A job's speed-up over its baseline as it was stored over time and at its end, with what each value rests on."""
    return services.telemetry.speed_ups(job_id, attempt)


@router.get("/links", responses=problems(404, 422))
def list_link_series(services: Services, job_id: str, asked: Annotated[LinkQuery, Query()]) -> Links:
    """Utilization: what every link moved in each bin of time, by direction and layer, in bytes and, where the link's
    rate is known, as shares of it."""
    return services.links.read(job_id, asked)


@router.get("/links/stretch", responses=problems(404, 422))
def show_stretch(services: Services, job_id: str, asked: Annotated[StretchQuery, Query()]) -> LinkStretch:
    """A stretch of time: the bytes of every layer over every link, their shares of the rate, and the exposed waits that
    fall into it."""
    return services.links.stretch(job_id, asked)


@router.get("/staleness", responses=problems(404, 422))
def show_staleness(services: Services, job_id: str, asked: Annotated[StalenessQuery, Query()]) -> Staleness:
    """How stale contributions were when they were applied, of each worker, to each layer and over time, and who was how
    many steps ahead of the slowest."""
    return services.staleness.read(job_id, asked)


@router.get("/memory", responses=problems(404, 422))
def show_memory(services: Services, job_id: str, attempt: AttemptAsked = None) -> JobMemory:
    """What every worker held in memory, by whose count, and by layer what was saved for backward, left for a second
    tier of memory or was computed again. (The samples are series: `/metrics`. What a plan is predicted to hold:
    `POST /plans/memory`.)"""
    return services.held.read(job_id, attempt)


@router.get("/logs", responses=problems(404, 409, 422, 503))
def show_logs(
    services: Services,
    job_id: str,
    party: Annotated[str | None, Query(description="E.g. `worker 0`, which is the default")] = None,
    attempt: AttemptAsked = None,
    offset: Annotated[int, Query(ge=-(2**62), le=2**62, description="In bytes; negative: from the end")] = 0,
    limit: Annotated[int, Query(ge=16, le=1 << 20, description="In bytes")] = 1 << 16,
) -> Logs:
    """What one process printed: every attempt has logs of its own."""
    return services.telemetry.logs(job_id, party=party, number=attempt, offset=offset, limit=limit)


@router.get(
    "/logs/file", response_class=StreamingResponse, responses={**LOG_FILE, **problems(404, 409, 422, 503)}
)
def download_log(
    services: Services,
    job_id: str,
    party: Annotated[str | None, Query(description="E.g. `worker 0`, which is the default")] = None,
    attempt: AttemptAsked = None,
) -> StreamingResponse:
    """What one process has printed, as a file. Of a very long log the middle is not kept: a line says how much."""
    name, pieces = services.telemetry.log_file(job_id, party=party, number=attempt)
    plain = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    named = {"Content-Disposition": f'attachment; filename="{plain}.log"'}
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8", headers=named)


@router.get("/summary", responses=problems(404, 422))
def show_summary(
    services: Services,
    job_id: str,
    baseline: Annotated[
        str | None, Query(description="Compare with this job instead of the job's own baseline")
    ] = None,
    attempt: AttemptAsked = None,
) -> Summary:
    """The job's figures: medians over a window, warm-up left out."""
    return services.telemetry.summary(job_id, baseline, attempt)
