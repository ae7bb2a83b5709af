"""The server: `create_app(settings)` wires the services together and owns their lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware

from backend.api import document, page, problems, router
from backend.api.dates import Dates
from backend.api.deps import problems as problem_responses
from backend.api.gate import Gate
from backend.api.guard import Guard
from backend.api.measured import Measured
from backend.api.methods import Methods
from backend.api.recorder import Recorder
from backend.services.measures import Measures
from backend.services.start import started
from backend.settings import Settings
from backend.version import program_version

MAX_BODY_BYTES = 1 << 20
"""Of every request but telemetry's, which sets its own."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application. Everything that runs begins with its lifespan and ends with it."""
    settings = settings or Settings()
    measures = Measures()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with started(settings, settings.address, measures) as context:
            app.state.context = context
            yield

    app = FastAPI(
        title="Trainyard",
        summary="A control plane for distributed training",
        version=program_version(),
        lifespan=lifespan,
        openapi_url=router.DOCUMENT,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere; nothing here does
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=_operation_id,
        responses=problem_responses(422),
    )
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4)
    app.add_middleware(Dates)
    app.add_middleware(Methods)
    app.add_middleware(Recorder)
    app.add_middleware(Gate)
    app.add_middleware(Guard, hosts=settings.hosts, any_ip=settings.for_others, max_json_bytes=MAX_BODY_BYTES)
    app.add_middleware(Measured, measures=measures)
    problems.install(app)
    document.install(app)
    app.include_router(router.build(), max_body_size=MAX_BODY_BYTES)
    page.install(app, settings.frontend_dir)
    return app


def openapi() -> dict[str, Any]:
    """The API's OpenAPI document; nothing is started."""
    return create_app().openapi()


def _operation_id(route: APIRoute) -> str:
    """`submit_job`: the name of the route's function, which is the method's name in a generated client."""
    return route.name
