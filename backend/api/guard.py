"""What every request must satisfy before any route sees it.

A job is a program: whoever can submit one runs code here. Pages of other sites run in browsers that reach the server,
and their requests may carry a session's cookie. Three rules keep them out: a request must ask for a host name of ours
(so that a name of theirs which resolves to our address is of no use); a write must carry a content type that a browser
does not send across origins without asking first (we never answer that question); and where a browser says which origin
a write comes from, that must be the address that it asks. And no page may frame ours: a click that somebody means for
elsewhere could launch or cancel a job.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.access.addresses import parsed
from backend.api.problems import SHOWN, problem

READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
KNOWN = READS | {"POST", "PUT", "PATCH", "DELETE"}
"""Methods that this server knows, though an address may not have them."""
HOST = re.compile(r"(?:\[(?P<ip>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[^\s:/?#@\[\]\\]+))(?::[0-9]{0,5})?")
"""What a Host header may be."""
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

    def __init__(self, app: ASGIApp, hosts: frozenset[str], any_ip: bool, max_json_bytes: int) -> None:
        """`hosts`: names in lower case. `any_ip`: an address in figures is known, too, which no name of another site
        is."""
        self.app = app
        self.hosts = hosts
        self.any_ip = any_ip
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
        write = scope["method"] not in READS
        refusal = self._host(headers) or _address(scope) or _method(scope["method"])
        if write:
            refusal = refusal or _origin(headers) or self._body(headers)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _host(self, headers: Headers) -> ASGIApp | None:
        asked = headers.get("host", "")
        name = _name(asked)
        if name.lower() in self.hosts or (self.any_ip and parsed(name) is not None):
            return None
        known = ", ".join(sorted(self.hosts))
        return problem(
            421,
            "unknown-host",
            "Unknown host",
            f"Host = {asked[:SHOWN]!r}: this server answers only for {known}. Use one of these, or start it with "
            f"TRAINYARD_ALLOWED_HOSTS={name[:SHOWN] or 'name'}",
        )

    def _body(self, headers: Headers) -> ASGIApp | None:
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if given == BATCH and "authorization" in headers:
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


def _name(host: str) -> str:
    """The host without its port; empty where it is none. Addresses that answers name are made of the whole of it."""
    found = HOST.fullmatch(host)
    return (found["ip"] or found["name"]) if found else ""


def _origin(headers: Headers) -> ASGIApp | None:
    """Ports of one host are one site to browsers, so a cookie's SameSite does not keep their pages out."""
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    if origin is None or origin.partition("://")[2].lower() == host:
        return None
    return problem(
        403,
        "cross-origin",
        "Another site's request",
        f"Origin = {origin!r}: a browser may write only from the address that it asks, which is {host!r}. Use this "
        "server's own page; a proxy in between has to pass the Host header on as it came",
    )


def _method(method: str) -> ASGIApp | None:
    if method in KNOWN:
        return None
    detail = f"{method}: this server has no such method. Use one of {', '.join(sorted(KNOWN))}"
    return problem(501, "not-implemented", "Not implemented", detail)


def _address(scope: Scope) -> ASGIApp | None:
    """No name and no id of ours has a NUL character, and PostgreSQL takes none to look for."""
    if "\0" not in scope["path"] and b"%00" not in scope["query_string"]:
        return None
    return problem(422, "invalid", "Invalid input", "The address holds a NUL character (%00). Leave it out")
