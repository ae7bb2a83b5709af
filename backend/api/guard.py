"""What every request must satisfy before any route sees it.

A job is a program: whoever can submit one runs code here. The server listens on loopback, but the pages of
other sites run in a browser on the same machine. Two rules keep them out: a request must ask for a host name
of ours (so that a name of theirs which resolves to 127.0.0.1 is of no use), and a write must carry a content
type that a browser does not send across origins without asking first (we never answer that question).
And no page may frame ours: a click that somebody means for elsewhere could launch or cancel a job.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.problems import problem

READS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"
BATCH = "application/octet-stream"
"""Telemetry batches travel in binary, with a bearer token: neither may cross origins unasked."""
HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)
"""Of every answer, for the browser."""


class Guard:
    """ASGI middleware: host allow-list, content types and sizes of writes, a few headers for the browser."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], max_json_bytes: int) -> None:
        self.app = app
        self.hosts = hosts
        self.max_json_bytes = max_json_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._host(headers) or _address(scope) or self._body(scope["method"], headers)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _host(self, headers: Headers) -> ASGIApp | None:
        asked = headers.get("host", "")
        name = asked[1 : asked.find("]")] if asked.startswith("[") else asked.partition(":")[0]
        if name.lower() in self.hosts:
            return None
        known = ", ".join(sorted(self.hosts))
        return problem(
            421,
            "unknown-host",
            "Unknown host",
            f"Host = {asked!r}: this server answers only for {known}. Use one of these, or start it with "
            f"TRAINYARD_ALLOWED_HOSTS='[\"{name or 'name'}\"]'",
        )

    def _body(self, method: str, headers: Headers) -> ASGIApp | None:
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method in READS or (given == BATCH and "authorization" in headers):
            return None
        if given == JSON:
            return self._too_large(headers.get("content-length", "0"))
        return problem(
            415,
            "content-type",
            "Unsupported media type",
            f"Content-Type = {given!r}: writes are JSON. Send Content-Type: {JSON}, also with an empty body",
        )

    def _too_large(self, length: str) -> ASGIApp | None:
        """Announced lengths; the framework counts what comes without one."""
        if length.isdecimal() and int(length) <= self.max_json_bytes:
            return None
        detail = f"Content-Length = {length}: a JSON body has at most {self.max_json_bytes} bytes. Send less"
        return problem(413, "too-large", "Content too large", detail)


def _address(scope: Scope) -> ASGIApp | None:
    """No name and no id of ours has a NUL character, and PostgreSQL takes none to look for."""
    if "\0" not in scope["path"] and b"%00" not in scope["query_string"]:
        return None
    return problem(422, "invalid", "Invalid input", "The address holds a NUL character (%00). Leave it out")
