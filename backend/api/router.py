"""Every group of routes, listed once. To add one: write its file, add it to ROUTERS."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute

from backend.api import (
    catalogue,
    checkpoints,
    exports,
    figures,
    groups,
    health,
    ingest,
    jobs,
    maintenance,
    nodes,
    notices,
    people,
    plans,
    profiles,
    projects,
    races,
    scrape,
    secrets,
    session,
    starts,
    telemetry,
    templates,
    webhooks,
)
from backend.api.body import check_body
from backend.api.numbers import check_numbers

PREFIX = "/api/v1"
DOCUMENT = f"{PREFIX}/openapi.json"
"""Where the API's description is."""
ROUTERS = (
    jobs.router,
    groups.router,
    plans.router,
    profiles.router,
    races.router,
    templates.router,
    starts.router,
    telemetry.router,
    checkpoints.router,
    exports.router,
    figures.router,
    catalogue.router,
    maintenance.router,
    nodes.router,
    projects.router,
    scrape.router,
    notices.router,
    people.router,
    webhooks.router,
    secrets.router,
    ingest.router,
    session.router,
    health.router,
)
OPEN = (health.router, session.router, ingest.router)
"""Those that answer without a token: how the service is, signing in, and telemetry, which comes with the
attempt's own."""


def build() -> APIRouter:
    """All of them under one prefix, each behind the checks of its address and of its body; the body of telemetry is not
    checked here: what a stranger sends is not read."""
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(check_numbers)])
    for router in ROUTERS:
        api.include_router(router, dependencies=[] if router is ingest.router else [Depends(check_body)])
    return api


def is_open(path: str) -> bool:
    """Whether an address, or an address with its parameters' names, is one of OPEN. The routes themselves say so: no
    spelling can pass here and then reach another."""
    return path.startswith(PREFIX) and bool(_routes(OPEN, path.removeprefix(PREFIX)))


def methods(path: str) -> list[str]:
    """The methods of an address below the prefix, HEAD wherever there is GET; none where there is no route."""
    routes = _routes(ROUTERS, path.removeprefix(PREFIX))
    found = {"GET"} if path == DOCUMENT else {method for route in routes for method in route.methods or ()}
    return sorted(found | {"HEAD"} if "GET" in found else found)


def operations(method: str, path: str) -> list[tuple[str, dict[str, str]]]:
    """The operations that an address could be, with what it has for their parameters; HEAD is GET. None where there is
    no such route."""
    wanted = "GET" if method == "HEAD" else method
    below = path.removeprefix(PREFIX)
    return [
        (route.name, match.groupdict())
        for route in _routes(ROUTERS, below)
        if wanted in (route.methods or ()) and (match := route.path_regex.match(below))
    ]


def _routes(routers: Iterable[APIRouter], path: str) -> list[APIRoute]:
    """Those at `path` (below the prefix)."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return [route for route in routes if route.path_regex.match(path)]
