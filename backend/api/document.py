"""The OpenAPI document, with errors under their own media type."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from backend.api.problems import MEDIA_TYPE


def install(app: FastAPI) -> None:
    """Make `app.openapi()` say what the service answers."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        routes=app.routes,
        separate_input_output_schemas=app.separate_input_output_schemas,
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, response in operation.get("responses", {}).items():
                if int(status) >= 400 and response.get("content"):
                    response["content"] = {MEDIA_TYPE: next(iter(response["content"].values()))}
    return document
