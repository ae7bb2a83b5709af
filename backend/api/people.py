"""Who may use the server, and who did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from backend.api.deps import Asks, Services, note, problems, shown_once
from backend.api.fields import of_items
from backend.schemas.people import (
    AuditDetails,
    AuditPage,
    AuditQuery,
    NewToken,
    RoleRequest,
    TokenRequest,
    TokenView,
    UserRequest,
    UserView,
)

router = APIRouter(tags=["people"])
TokenId = Annotated[int, Path(ge=1, le=2**62)]


def _of_token(token: TokenView) -> AuditDetails:
    return AuditDetails(user=token.user, name=token.name, scope=token.scope, expires_at=token.expires_at)


@router.get("/users")
def list_users(
    services: Services,
    removed: Annotated[
        bool, Query(description="Those who were removed, too: the audit log names them")
    ] = False,
) -> list[UserView]:
    """Everybody who may use this server, with their tokens. Empty where the server asks nobody who they are."""
    return services.people.users(removed=removed)


@router.post("/users", status_code=201, responses=problems(409, 415))
def add_user(services: Services, asked: UserRequest, request: Request, response: Response) -> UserView:
    """Let somebody in: they need a token, too. Who was removed comes back, without their former tokens."""
    response.headers["Location"] = f"/api/v1/users/{asked.name}"
    added = services.people.add(asked)
    note(request, AuditDetails(role=added.role))
    return added


@router.patch("/users/{user}", responses=problems(404, 409, 415))
def change_user(services: Services, user: str, asked: RoleRequest, request: Request) -> UserView:
    """Give somebody another role, at once."""
    changed, former = services.people.change(user, asked.role)
    note(request, AuditDetails(role=changed.role, former_role=former))
    return changed


@router.delete("/users/{user}", status_code=204, responses=problems(404, 409, 415))
def remove_user(services: Services, user: str, request: Request) -> None:
    """Send somebody away: their tokens are revoked, and they are signed out everywhere. What they made stays."""
    note(request, AuditDetails(role=services.people.remove(user)))


@router.get("/tokens")
def list_tokens(services: Services, caller: Asks) -> list[TokenView]:
    """One's own tokens, newest first."""
    return services.people.tokens(caller)


@router.post("/tokens", status_code=201, responses=problems(404, 409, 415))
def make_token(
    services: Services, caller: Asks, asked: TokenRequest, request: Request, response: Response
) -> NewToken:
    """Make a token, for oneself or, as an admin, for somebody else. The answer holds it, and nothing else ever will."""
    made = services.people.make(caller, asked)
    note(request, _of_token(made))
    shown_once(response, f"/api/v1/tokens/{made.id}")
    return made


@router.delete("/tokens/{token_id}", status_code=204, responses=problems(404, 409, 415))
def revoke_token(services: Services, caller: Asks, token_id: TokenId, request: Request) -> None:
    """Revoke one's own token, or, as an admin, anybody's. Whoever signed in with it is signed out."""
    note(request, _of_token(services.people.revoke(caller, token_id)))


@router.get("/audit", response_model=AuditPage)
def list_audit(services: Services, asked: Annotated[AuditQuery, Query()]) -> AuditPage | JSONResponse:
    """Who did what to which thing, when, and from where; newest first. With `fields`, items hold only these."""
    return of_items(services.audit.page(asked), asked.fields)
