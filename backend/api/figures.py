"""Figures: whole Plotly figures, cached by the data's revision."""

from __future__ import annotations

import gzip
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from backend.api.deps import MOST_NS, AttemptAsked, Services, TimeAsked, problems
from backend.figures.compare import MOST_SMOOTHED, By, What
from backend.figures.why import Wait
from backend.schemas.figures import Race
from backend.schemas.why import Why

router = APIRouter(tags=["figures"])

Width = Annotated[int, Query(ge=200, le=8192, description="Of the drawing, in CSS pixels")]
Theme = Literal["light", "dark"]
Step = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="The step that time counts from")]
SinceStart = Annotated[
    int | None, Query(ge=-MOST_NS, le=MOST_NS, description="Nanoseconds since the step's start, in each job")
]
Lit = Annotated[
    str | None,
    Query(description="A wait to light up: worker, step, layer and unit with commas", max_length=64),
]
Tag = Annotated[str | None, Header(description="The `ETag` of the answer held")]

FIGURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "A Plotly figure"},
    304: {"description": "Nothing has changed"},
}


def answered(request: Request, content: bytes | None, etag: str) -> Response:
    """A figure, compressed where the client takes it; 304 where it has it already."""
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if content is None:
        return Response(status_code=304, headers=headers)
    return compressed(request, content, headers)


def compressed(request: Request, content: bytes, headers: dict[str, str]) -> Response:
    """JSON that is compressed with gzip, as the client takes it."""
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, media_type="application/json", headers=headers)


@router.get(
    "/jobs/{job_id}/figures/{name}", response_class=Response, responses={**FIGURE, **problems(404, 422)}
)
def show_figure(
    services: Services,
    request: Request,
    job_id: str,
    name: str,
    *,
    width: Width = 1280,
    theme: Theme = "light",
    step: Step = None,
    to_step: Step = None,
    from_ns: TimeAsked = None,
    to_ns: TimeAsked = None,
    why: Lit = None,
    layer: Annotated[
        int | None, Query(ge=0, le=2**15 - 1, description="Lit up in a timeline of many steps")
    ] = None,
    links: Annotated[
        str | None,
        Query(description="Of the utilization: only these, as `0:transport`, with commas", max_length=2_000),
    ] = None,
    attempt: AttemptAsked = None,
    baseline: Annotated[str | None, Query(description="Of a speed-up, in place of the job's own")] = None,
    predicted: Annotated[
        int | None,
        Query(ge=0, le=2**62, description="Of memory: a worker's predicted peak in bytes, which is drawn"),
    ] = None,
    if_none_match: Tag = None,
) -> Response:
    """One figure of one job, answered whole."""
    return answered(
        request,
        *services.figures.job(
            job_id,
            name,
            {
                "width": width,
                "theme": theme,
                "step": step,
                "to_step": to_step,
                "from_ns": from_ns,
                "to_ns": to_ns,
                "why": why,
                "layer": layer,
                "links": None if links is None else tuple(links.split(",")),
                "attempt": attempt,
                "baseline": baseline,
                "predicted": predicted,
            },
            if_none_match,
        ),
    )


@router.get("/race", response_model=Race, responses={304: FIGURE[304], **problems(404, 422)})
def draw_race(
    services: Services,
    request: Request,
    *,
    jobs: Annotated[str, Query(description="Ids with commas, at least two")],
    step: Annotated[
        int | None,
        Query(ge=0, le=2**31 - 1, description="Left out: the latest step that all kept every event of"),
    ] = None,
    from_ns: SinceStart = None,
    to_ns: SinceStart = None,
    width: Width = 1280,
    theme: Theme = "light",
    why_job: Annotated[str | None, Query(description="The job that `why` is of")] = None,
    why: Lit = None,
    if_none_match: Tag = None,
) -> Response:
    """Jobs stacked, aligned by step on one time axis, with a computed headline."""
    ids = [job for job in jobs.split(",") if job]
    view = {
        "width": width,
        "theme": theme,
        "step": step,
        "from_ns": from_ns,
        "to_ns": to_ns,
        "why_job": why_job,
        "why": why,
    }
    return answered(request, *services.figures.race(ids, view, if_none_match))


@router.get("/compare", response_class=Response, responses={**FIGURE, **problems(404, 422)})
def compare_jobs(
    services: Services,
    request: Request,
    *,
    jobs: Annotated[str, Query(description="Ids with commas")],
    what: Annotated[What, Query(description="Which measurement")] = "loss",
    by: Annotated[By, Query(description="Over what")] = "step",
    smooth: Annotated[
        int | None,
        Query(
            ge=0,
            le=MOST_SMOOTHED,
            description="Percent of the points that a moving average spans, 0 for none. Left out: losses of many steps "
            "are smoothed, and the axis says so",
        ),
    ] = None,
    width: Width = 1280,
    theme: Theme = "light",
    if_none_match: Tag = None,
) -> Response:
    """One measurement of several jobs, over steps, samples, bytes or time."""
    ids = [job for job in jobs.split(",") if job]
    view = {"width": width, "theme": theme}
    return answered(request, *services.figures.compare(ids, what, by, view, if_none_match, smooth))


@router.get("/jobs/{job_id}/why", responses=problems(404, 422))
def explain_wait(
    services: Services,
    job_id: str,
    *,
    worker: Annotated[int, Query(ge=0, le=2**15 - 1, description="Party number")],
    step: Annotated[int, Query(ge=0, le=2**31 - 1)],
    layer: Annotated[int, Query(ge=-1, le=2**15 - 1, description="Index in the model's description")],
    unit: Annotated[int, Query(ge=-1, le=2**31 - 1, description="That came last; -1: whichever")] = -1,
    attempt: AttemptAsked = None,
) -> Why:
    """Why a worker waited: the longest wait of this step for this layer, cut into what happened to the message
    that ended it."""
    return services.figures.why(job_id, attempt, Wait(party=worker, step=step, layer=layer, unit=unit))
