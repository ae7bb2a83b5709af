"""The OpenAPI document, with errors under their own media type, and with what each operation wants to be shown."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from backend.access.rights import ROLES, least
from backend.api import ingest
from backend.api.credentials import COOKIE
from backend.api.guard import READS
from backend.api.problems import MEDIA_TYPE
from backend.api.router import is_open

SCHEMES: dict[str, Any] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A user's token, where the server asks for one. `x-least-role` of an operation says what they "
        "have to be at least.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Set by `start_session`. The name ends in the port of the address that was asked, with a `-`.",
    },
    "attempt": {
        "type": "http",
        "scheme": "bearer",
        "description": "The attempt's own token, for its telemetry.",
    },
}


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
    document["components"]["securitySchemes"] = SCHEMES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _say_who_may(path, method, operation)
            for status, response in operation.get("responses", {}).items():
                if int(status) >= 400 and response.get("content"):
                    response["content"] = {MEDIA_TYPE: next(iter(response["content"].values()))}
    return document


def _say_who_may(path: str, method: str, operation: dict[str, Any]) -> None:
    """What the gate and the guard ask of this operation, and what they answer."""
    refused = operation["responses"]
    if not is_open(path):
        operation["security"] = [{"token": []}, {"session": []}]
        operation["x-least-role"] = wanted = least(operation["operationId"])
        refused |= {"401": _refusal("Unauthorized"), "429": _refusal("Too Many Requests")}
        if wanted != ROLES[0]:
            refused["403"] = _refusal("Forbidden")
    elif operation["tags"] == ingest.router.tags:
        operation["security"] = [{"attempt": []}]
    if method.upper() not in READS:
        refused["403"] = _refusal("Forbidden")


def _refusal(title: str) -> dict[str, Any]:
    return {
        "description": title,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
