"""Metrics of the service for Prometheus."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from backend.api.deps import Services, problems
from backend.services.scrape import scrape

router = APIRouter(prefix="/metrics", tags=["exports"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "application/openmetrics-text": {"schema": {"type": "string"}},
        },
        "description": "Families of metrics, by what the client accepts",
    }
}


@router.get("", response_class=Response, responses={**TEXT, **problems(422)})
def scrape_metrics(
    services: Services, accept: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """How the service and its jobs are, in Prometheus' text format or in OpenMetrics; `/metrics` is the same."""
    text, media_type = scrape(services, accept)
    return Response(text, media_type=media_type)
