"""Every group of routes, listed once. To add one: write its file, add it to ROUTERS."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from backend.api import (
    catalogue,
    figures,
    health,
    ingest,
    jobs,
    notices,
    plans,
    session,
    telemetry,
    templates,
)
from backend.api.body import check_body

PREFIX = "/api/v1"
ROUTERS = (
    jobs.router,
    plans.router,
    templates.router,
    telemetry.router,
    figures.router,
    catalogue.router,
    notices.router,
    ingest.router,
    session.router,
    health.router,
)
OPEN = (health.router, session.router, ingest.router)
"""Those that answer without the server's token: how the service is, signing in, and telemetry, which comes with the
attempt's own."""


def build() -> APIRouter:
    """All of them under one prefix, each behind the check of its body, but for telemetry: what a stranger sends is not
    read."""
    api = APIRouter(prefix=PREFIX)
    for router in ROUTERS:
        api.include_router(router, dependencies=[] if router is ingest.router else [Depends(check_body)])

    @api.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    def nothing_here(path: str, request: Request) -> None:
        # Without this, the page's fallback would answer a mistyped path with HTML and 200.
        if allowed := _methods(f"/{path}"):
            raise HTTPException(
                405,
                f"{request.method} {PREFIX}/{path}: this resource only has {allowed}",
                headers={"Allow": allowed},
            )
        raise HTTPException(
            404, f"{request.method} {PREFIX}/{path}: no such resource. See {PREFIX}/openapi.json"
        )

    return api


def is_open(path: str) -> bool:
    """Whether an address, or an address with its parameters' names, is one of OPEN. The routes themselves say so: no
    spelling can pass here and then reach another."""
    return path.startswith(PREFIX) and bool(_routes(OPEN, path.removeprefix(PREFIX)))


def _methods(path: str) -> str:
    """Methods of the routes at `path` (below the prefix), with commas; empty where there is no route."""
    found = {method for route in _routes(ROUTERS, path) for method in route.methods or ()}
    return ", ".join(sorted(found))


def _routes(routers: Iterable[APIRouter], path: str) -> list[APIRoute]:
    """Those at `path` (below the prefix)."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return [route for route in routes if route.path_regex.match(path)]
