"""Dates in requests as HTTP has them (RFC 9110, sections 5.6.7 and 13.1.3): what is none is as if it were not there.

Starlette compares whatever Python's mail parser makes of it: the 99th of November, or a time of another zone as if it
were ours, would have a browser keep what it has of the page.
"""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate

from starlette.types import ASGIApp, Receive, Scope, Send

NAME = b"if-modified-since"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_TIME = r"\d\d:\d\d:\d\d"
FORMS = re.compile(
    rf"{_DAY}, \d\d [A-Z][a-z][a-z] \d{{4}} {_TIME} GMT"
    rf"|{_DAY}[a-z]*day, \d\d-[A-Z][a-z][a-z]-\d\d {_TIME} GMT"
    rf"|{_DAY} [A-Z][a-z][a-z] [ \d]\d {_TIME} \d{{4}}"
)
"""The one that is sent today, and the two old ones that a server must read."""


class Dates:
    """ASGI middleware: leaves out an If-Modified-Since that is no date."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == NAME for name, _ in scope.get("headers", ())):
            kept = [
                (n, value) for n, value in scope["headers"] if n != NAME or is_date(value.decode("latin-1"))
            ]
            scope = {**scope, "headers": kept}
        await self.app(scope, receive, send)


def is_date(text: str) -> bool:
    """Whether it is a moment, in one of the three forms."""
    found = parsedate(text) if FORMS.fullmatch(text) else None
    if found is None:
        return False
    try:
        datetime(*found[:6])
    except ValueError:
        return False
    return True
