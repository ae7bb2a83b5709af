"""Every error leaves the service as a problem: value, rule and remedy, never a bare string or a stack
trace."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_jsonable_python
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import MAX_BODY_SIZE_SCOPE_KEY
from starlette.requests import ClientDisconnect

from backend.schemas.patterns import IN_WORDS
from backend.schemas.problems import FieldProblem, Problem
from backend.services.errors import (
    DatabaseUnavailableError,
    FilesAwayError,
    IngestError,
    ServiceError,
    WriterError,
)
from engine.errors import UserError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
UNREADABLE = "There was an error parsing the body"
"""What the framework says of bytes that are no text."""
SHOWN = 200
"""Characters of a refused value that an answer repeats."""
HOLD_SECRETS = frozenset({"start_session", "keep_secret"})
"""Operations whose bodies are not repeated in what refuses them."""
_REMEDY = {
    "missing": "Add it",
    "json_invalid": "Send valid JSON",
    "int_parsing": "Give a whole number",
    "float_parsing": "Give a number",
}


def problem(
    status: int,
    kind: str,
    title: str,
    detail: str,
    *,
    errors: Iterable[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A problem as a response."""
    body = Problem(type=f"/problems/{kind}", title=title, status=status, detail=detail, errors=list(errors))
    return _Answer(body.model_dump(), status, headers, media_type=MEDIA_TYPE)


class _Answer(JSONResponse):
    def render(self, content: Any) -> bytes:
        """What was refused may hold half of a surrogate pair, which is in no UTF-8: it stays escaped, as it came."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(errors="backslashreplace")


def install(app: FastAPI) -> None:
    """Answer everything that routes raise."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(IngestError, _ingest_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(WriterError, _unavailable)
    app.add_exception_handler(DatabaseUnavailableError, _unavailable)
    app.add_exception_handler(FilesAwayError, _unavailable)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _bug)


def field_problem(error: UserError) -> FieldProblem:
    """A UserError as one entry of a problem."""
    return FieldProblem(field=error.field, value=_plain(error.value), rule=error.rule, remedy=error.remedy)


def _said(error: UserError) -> str:
    """The error's message, with its value as short as the problem's entry has it."""
    return str(UserError(error.field, _plain(error.value), error.rule, error.remedy))


def _user_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    more = f" (and {len(error.more)} more)" if error.more else ""
    found = map(field_problem, error.every)
    return problem(422, "invalid", "Invalid input", _said(error) + more, errors=found)


def _ingest_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, IngestError)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None  # RFC 9110 wants one
    return problem(
        error.status,
        "ingest",
        "Telemetry refused",
        _said(error),
        errors=[field_problem(error)],
        headers=headers,
    )


def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    hidden = getattr(request.scope.get("route"), "name", None) in HOLD_SECRETS
    found = [_from_pydantic(entry, hidden=hidden) for entry in error.errors()]
    detail = "; ".join(f"{e.field} = {e.value!r}: {e.rule}. {e.remedy}" if e.field else e.rule for e in found)
    return problem(422, "invalid", "Invalid input", detail, errors=found)


def _from_pydantic(entry: Mapping[str, Any], *, hidden: bool) -> FieldProblem:
    """`hidden`: what was sent is not repeated, because some of it may be a secret in the wrong place."""
    cause = entry.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        return field_problem(cause)
    where, *path = [str(part) for part in entry["loc"]]
    value = None if entry["type"] == "missing" else "(not repeated)" if hidden else _plain(entry.get("input"))
    if hidden:  # names that we do not know are the sender's, too
        path = [] if entry["type"] == "extra_forbidden" else path[:1]
    if entry["type"] == "json_invalid":
        return FieldProblem(
            field="",
            value=None,
            rule=f"the body is not JSON: {entry['ctx']['error']}",
            remedy=_REMEDY["json_invalid"],
        )
    if words := IN_WORDS.get(entry.get("ctx", {}).get("pattern", "")):
        return FieldProblem(field=".".join(path), value=value, rule=words[0], remedy=words[1])
    rule = entry["msg"][:1].lower() + entry["msg"][1:]
    return FieldProblem(
        field=".".join(path) or ("" if where == "body" else where),
        value=value,
        rule=rule,
        remedy=_REMEDY.get(entry["type"], "Correct the value; /api/v1/openapi.json says what is expected"),
    )


def refusal(error: ServiceError) -> JSONResponse:
    """What a service refused, as a response."""
    return problem(
        error.status,
        error.kind,
        error.title,
        error.detail,
        errors=map(field_problem, error.errors),
        headers=error.headers,
    )


def _service_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServiceError)
    return refusal(error)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.detail == UNREADABLE:
        rule = "the body is not JSON in UTF-8, or nests too deeply, or holds a number of thousands of digits"
        found = FieldProblem(field="", rule=rule, remedy=_REMEDY["json_invalid"])
        return problem(422, "invalid", "Invalid input", found.rule, errors=[found])
    phrase = HTTPStatus(error.status_code).phrase
    detail = error.detail
    if error.status_code == 413:  # a body that came without its length, or with a wrong one
        limit = request.scope.get(MAX_BODY_SIZE_SCOPE_KEY)
        detail = f"the body is longer than {limit} bytes, which is the most here. Send less"
    elif detail == phrase:
        detail = f"{request.method} {request.url.path}: {phrase.lower()}"
    kind = phrase.lower().replace(" ", "-").replace("'", "")
    headers = error.headers
    if error.status_code == 405 and headers is None:  # of the page's files
        headers = {"Allow": "GET, HEAD"}
    return problem(error.status_code, kind, phrase, detail, headers=headers)


def _unavailable(_: Request, error: Exception) -> JSONResponse:
    return problem(503, "unavailable", "Not available now", str(error), headers={"Retry-After": "5"})


def _gone(_: Request, error: Exception) -> JSONResponse:
    """The client left before its request was whole: nobody reads this, and nothing was done."""
    return problem(400, "incomplete", "Incomplete request", "the connection ended before the body did")


def _bug(request: Request, error: Exception) -> JSONResponse:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(
        500,
        "internal",
        "Internal error",
        f"{type(error).__name__}: the server's log has the details. Please report it",
    )


def _plain(value: Any) -> Any:
    """Something that JSON can carry and a person can read: the beginning of what is too long."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        plain = to_jsonable_python(value, inf_nan_mode="strings", fallback=repr)
    except ValueError:
        return "(nested too deeply to be shown)"
    text = plain if isinstance(plain, str) else repr(plain)
    return plain if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
