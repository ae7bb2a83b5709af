"""What a request shows of who sent it: the server's token, or a session's cookie."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from backend.services.access import REMEDY, Access
from backend.services.errors import Unauthorized

COOKIE = "trainyard-session"


def admit(access: Access, request: HTTPConnection) -> int | None:
    """Returns where the request may pass; when its session ends, where it is one. A token counts before a cookie.

    Raises Unauthorized where it shows neither, or a wrong one, and TooManyGuesses."""
    if not access.required:
        return None
    tokens = _bearer_tokens(request)
    if len(tokens) > 1:
        raise Unauthorized("the request has several tokens", "Send one `Authorization` header")
    if tokens:
        access.check_token(tokens[0], client_of(request))
        return None
    id_ = session_of(request)
    if id_ is None:
        raise Unauthorized("this server asks for its token, and the request has none", REMEDY)
    ends = access.session_ends_unix_ns(id_)
    if ends is None:
        raise Unauthorized("this session has ended", "Sign in again on the page")
    return ends


def still_admitted(access: Access, request: HTTPConnection) -> bool:
    """The same for an answer that goes on and on: its session may have ended meanwhile, while a token stays right."""
    if not access.required or _bearer_tokens(request):
        return True
    id_ = session_of(request)
    return id_ is not None and access.session_ends_unix_ns(id_) is not None


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
