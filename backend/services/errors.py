"""What services raise besides `engine.errors.UserError`; the API answers each with its status.

ServiceError
    BadRequest      400  a header that says nothing
    Left            400  the client left before its answer: nobody reads this
    Unauthorized    401  the server asks for a token
    Forbidden       403  the caller may not do that
    NotFound        404  no such job, figure, party, ...
    Conflict        409  what is asked for contradicts what is there
    TooManyGuesses  429  this client sent too many wrong tokens; says when to try again
    TooManyRequests 429  too many requests came with one token; the same
    Busy            503  too much is under way already; says when to ask again
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from backend.db import DatabaseUnavailableError, WriterError
from backend.executors.attempt_files import FilesAwayError
from backend.ingest import IngestError
from engine.errors import UserError

__all__ = [
    "BadRequest",
    "Busy",
    "Conflict",
    "DatabaseUnavailableError",
    "FilesAwayError",
    "Forbidden",
    "IngestError",
    "Left",
    "NotFound",
    "ServiceError",
    "TooManyGuesses",
    "TooManyRequests",
    "Unauthorized",
    "WriterError",
]


class ServiceError(Exception):
    """An error with a status of its own; `errors` may name fields."""

    status = 500
    kind = "internal"
    title = "Internal error"

    def __init__(self, detail: str, errors: Sequence[UserError] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer."""
        return {}


class BadRequest(ServiceError):  # noqa: N818 - named as HTTP names it
    status, kind, title = 400, "bad-request", "Bad request"


class Left(ServiceError):  # noqa: N818
    status, kind, title = 400, "incomplete", "Incomplete request"


class Unauthorized(ServiceError):  # noqa: N818
    status, kind, title = 401, "unauthorized", "Sign in"

    def __init__(self, rule: str, remedy: str) -> None:
        super().__init__(f"{rule}. {remedy}", [UserError("", "the token", rule, remedy)])

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": 'Bearer realm="trainyard"'}


class Forbidden(ServiceError):  # noqa: N818
    status, kind, title = 403, "forbidden", "Not permitted"

    def __init__(self, rule: str, remedy: str) -> None:
        super().__init__(f"{rule}. {remedy}", [UserError("", "the request", rule, remedy)])


class NotFound(ServiceError):  # noqa: N818
    status, kind, title = 404, "not-found", "Not found"


class Conflict(ServiceError):  # noqa: N818
    status, kind, title = 409, "conflict", "Conflict"


class _Later(ServiceError):  # noqa: N818
    def __init__(self, detail: str, *, retry_after_s: float) -> None:
        super().__init__(detail)
        self.retry_after_s = math.ceil(retry_after_s)

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after_s)}


class TooManyGuesses(_Later):
    status, kind, title = 429, "too-many-guesses", "Too many wrong tokens"


class TooManyRequests(_Later):
    status, kind, title = 429, "too-many-requests", "Too many requests"


class Busy(_Later):
    status, kind, title = 503, "busy", "Busy"
