"""Signing in and out with a browser.

The cookie holds a random name for the session. It does not tell the token, scripts cannot read it, and browsers leave
it out of requests that other sites make.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from backend.access.rights import Caller
from backend.api.credentials import admit, client_of, cookie_name, session_of
from backend.api.deps import Services, problems
from backend.schemas.session import SessionView, SignIn
from backend.services.access import SESSION_S
from backend.services.context import Context
from backend.services.errors import TooManyGuesses, Unauthorized

router = APIRouter(prefix="/session", tags=["session"])


@router.get("")
def show_session(services: Services, request: Request) -> SessionView:
    """Whether this server asks who one is, and who that is, by this request's token or session."""
    try:
        return _signed_in(services, admit(services.access, request))
    except (Unauthorized, TooManyGuesses):
        return SessionView(access=services.access.kind, signed_in=False)


@router.post("", responses=problems(401, 409, 415, 429))
def start_session(services: Services, request: Request, response: Response, body: SignIn) -> SessionView:
    """Sign in with a token. The answer sets an HttpOnly cookie."""
    id_, caller = services.access.sign_in(
        body.token.get_secret_value(), client_of(request), session_of(request)
    )
    services.audit.add(caller, "start_session", "session", client_of(request), 200).result()
    _set_cookie(response, request, id_, SESSION_S)
    return _signed_in(services, caller)


@router.delete("", status_code=204, responses=problems(415))
def end_session(services: Services, request: Request, response: Response) -> None:
    """Sign out. The session ends for everybody who has its cookie; harmless where there is none."""
    if id_ := session_of(request):
        caller = services.access.by_session(id_) if services.access.required else None
        services.access.sign_out(id_)
        if caller is not None:
            services.audit.add(caller, "end_session", "session", client_of(request), 204).result()
        _set_cookie(response, request, "", 0)


def _signed_in(services: Context, caller: Caller) -> SessionView:
    return SessionView(
        access=services.access.kind,
        signed_in=True,
        user=caller.name,
        role=caller.role,
        admins=services.access.tokens.admins() if services.access.required else [],
        ends_unix_ns=caller.ends_unix_ns,
        newest_notice=services.hub.newest(),
    )


def _set_cookie(response: Response, request: Request, value: str, seconds: int) -> None:
    response.set_cookie(
        cookie_name(request),
        value,
        max_age=seconds,
        path="/api",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
