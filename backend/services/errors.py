"""What services raise besides `engine.errors.UserError`; the API answers each with its status.

ServiceError
    NotFound      404  no such job, figure, party, ...
    Conflict      409  what is asked for contradicts what is there
    Busy          503  too much is under way already; says when to ask again
"""

from __future__ import annotations

from collections.abc import Sequence

from backend.db import DatabaseUnavailableError, WriterError
from backend.ingest import IngestError
from engine.errors import UserError

__all__ = [
    "Busy",
    "Conflict",
    "DatabaseUnavailableError",
    "IngestError",
    "NotFound",
    "ServiceError",
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


class NotFound(ServiceError):  # noqa: N818 - named as HTTP names it
    status, kind, title = 404, "not-found", "Not found"


class Conflict(ServiceError):  # noqa: N818
    status, kind, title = 409, "conflict", "Conflict"


class Busy(ServiceError):  # noqa: N818
    status, kind, title = 503, "busy", "Busy"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
