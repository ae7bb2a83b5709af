"""What a request shows of who sent it: a user's token, or a session's cookie."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from backend.access.rights import EVERYBODY, Caller
from backend.services.access import REMEDY, Access
from backend.services.errors import Unauthorized

COOKIE = "trainyard-session"
CALLER = "trainyard.caller"
"""Where the gate leaves who sent a request, in its scope."""
DETAILS = "trainyard.details"
"""Where a route leaves what it gave or took, for the audit log."""


def admit(access: Access, request: HTTPConnection) -> Caller:
    """Who sent it. A token counts before a cookie.

    Raises Unauthorized where it shows neither, or a wrong one, and TooManyGuesses."""
    if not access.required:
        return EVERYBODY
    tokens = _bearer_tokens(request)
    if len(tokens) > 1:
        raise Unauthorized("the request has several tokens", "Send one `Authorization` header")
    if tokens:
        return access.by_token(tokens[0], client_of(request))
    id_ = session_of(request)
    if id_ is None:
        raise Unauthorized("this server asks for a token, and the request has none", REMEDY)
    caller = access.by_session(id_)
    if caller is None:
        raise Unauthorized("this session has ended", "Sign in again on the page")
    return caller


def still_admitted(access: Access, request: HTTPConnection) -> bool:
    """The same for an answer that goes on and on: its session may have ended meanwhile, its token been revoked."""
    if not access.required:
        return True
    if _bearer_tokens(request) or (id_ := session_of(request)) is None:
        return access.stands(request.scope[CALLER])
    return access.by_session(id_) is not None


def cookie_name(request: HTTPConnection) -> str:
    """The cookie's name. It has the port that the browser asks, because browsers keep the cookies of a host together:
    who signs in to one server of a machine stays signed in to the other."""
    _, _, port = request.headers.get("host", "").rpartition("]")[2].partition(":")
    return f"{COOKIE}-{port}" if port.isdecimal() and len(port) <= 5 else COOKIE


def session_of(request: HTTPConnection) -> str | None:
    """The session's id; None where the request has no cookie of ours."""
    return request.cookies.get(cookie_name(request)) or None


def client_of(request: HTTPConnection) -> str | None:
    """The address of who asks; None where the server was not told."""
    return request.client.host if request.client else None


def _bearer_tokens(request: HTTPConnection) -> list[bytes]:
    """What comes as `Authorization: Bearer`; other schemes are a proxy's."""
    found = [value.partition(" ") for value in request.headers.getlist("authorization")]
    return [token.strip().encode("latin-1") for scheme, _, token in found if scheme.lower() == "bearer"]
