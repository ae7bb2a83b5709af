"""Races: submit, add members, list, show, report, cancel, delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import PlainValidator

from backend.api.deps import Asking, Asks, Services, problems
from backend.api.fields import of_items
from backend.api.figures import FIGURE, Tag, Theme, Width, answered
from backend.figures.compare import By
from backend.races.spec import NewMembers, RaceSpec
from backend.schemas.best import RaceBest
from backend.schemas.lists import RaceQuery
from backend.schemas.races import RacePage, RaceSummary, RaceView
from engine.plan.serde import from_plain

router = APIRouter(prefix="/races", tags=["races"])


RaceBody = Annotated[
    RaceSpec,
    PlainValidator(partial(from_plain, RaceSpec), json_schema_input_type=RaceSpec),
    Body(description="The race's specification"),
]
MembersBody = Annotated[
    NewMembers,
    PlainValidator(partial(from_plain, NewMembers), json_schema_input_type=NewMembers),
    Body(description="Who joins the race"),
]


@router.post("", status_code=201, responses={200: {"model": RaceView}, **problems(409, 415, 422, 503)})
def submit_race(
    services: Services,
    spec: RaceBody,
    response: Response,
    asker: Asking,
    caller: Asks,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> RaceView:
    """Race strategies on one model. Members that cannot run are listed with the reason, and the others run. Repeated
    under the same `Idempotency-Key` it answers the same race (200); with another body 409."""
    race, new = services.races.submit(spec, idempotency_key, asker, caller=caller)
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/api/v1/races/{race.id}"
    return race


@router.get("", response_model=RacePage, responses=problems(422))
def list_races(services: Services, asked: Annotated[RaceQuery, Query()]) -> RacePage | JSONResponse:
    """Races, newest first. With `fields`, items hold only these."""
    return of_items(services.races.page(asked), asked.fields)


@router.get("/{race_id}", responses=problems(404))
def show_race(services: Services, race_id: str) -> RaceView:
    """One race with its rankings."""
    return services.races.show(race_id)


@router.get("/{race_id}/best", responses=problems(404))
def show_best(services: Services, race_id: str) -> RaceBest:
    """Which plan is best: by speed, by what it attains at all, in a given time, and after a given number of samples;
    each with intervals, a verdict and its reason, and how every plan learned over steps, samples, bytes and time."""
    return services.races.best(race_id)


@router.get("/{race_id}/report", response_class=HTMLResponse, responses=problems(404))
def report_race(services: Services, race_id: str) -> HTMLResponse:
    """A race as one HTML file that needs nothing else: its conclusion, rankings, charts, specification, and where the
    figures come from."""
    named = {"Content-Disposition": f'attachment; filename="race-{race_id}.html"'}
    return HTMLResponse(services.races.report(race_id), headers=named)


@router.get(
    "/{race_id}/figures/learning", response_class=Response, responses={**FIGURE, **problems(404, 422)}
)
def show_learning(
    services: Services,
    request: Request,
    race_id: str,
    *,
    condition: Annotated[int, Query(ge=0, description="Its place among the race's conditions, from 0")] = 0,
    by: Annotated[By, Query(description="What it is drawn over")] = "samples",
    width: Width = 1280,
    theme: Theme = "light",
    if_none_match: Tag = None,
) -> Response:
    """How every plan of a race learned under one condition: test accuracy, or test loss, over steps, samples, bytes or
    time; means over rounds, with intervals."""
    found = services.races.learning(race_id, condition, by)
    view = {"width": width, "theme": theme}
    return answered(request, *services.figures.of_race("learning", found, view, if_none_match))


@router.get(
    "/{race_id}/figures/{name}", response_class=Response, responses={**FIGURE, **problems(404, 409, 422)}
)
def show_race_figure(
    services: Services,
    request: Request,
    race_id: str,
    name: str,
    *,
    width: Width = 1280,
    theme: Theme = "light",
    if_none_match: Tag = None,
) -> Response:
    """One figure of a race: `throughput` against the rate (or the workers, or the batch, where these vary instead),
    with the crossings marked. 409 where the race has one condition, and so no curve."""
    services.figures.check_race_figure(name)
    curves = services.races.curves(race_id)
    view = {"width": width, "theme": theme}
    return answered(request, *services.figures.of_race(name, curves, view, if_none_match))


@router.post("/{race_id}/members", responses=problems(404, 409, 415, 422, 503))
def add_members(
    services: Services, race_id: str, asked: MembersBody, caller: Asks, asker: Asking
) -> RaceView:
    """Let more members race, in every round; the others run no more for it. A new member is not compared within the
    rounds that were over: where too few are left, it has figures, but no place."""
    return services.races.add(race_id, asked.members, asker, caller=caller)


@router.post("/{race_id}/cancel", responses=problems(404, 409, 415))
def cancel_race(services: Services, race_id: str) -> RaceSummary:
    """End a race and the job of it that runs; what has ended stays. Ending it twice changes nothing. Answers the race
    as lists have it."""
    return services.races.cancel(race_id)


@router.delete(
    "/{race_id}",
    status_code=204,
    responses={204: {"description": "It is gone; its jobs are there."}, **problems(404, 409, 415)},
)
def delete_race(services: Services, race_id: str) -> None:
    """Forget a race that does not run. Its jobs stay."""
    services.races.delete(race_id)
