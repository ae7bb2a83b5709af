"""Users, tokens and the audit log, as methods of the client."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from backend.access.rights import Role
from backend.connection import Connection
from backend.schemas.people import AuditPage, NewToken, TokenView, UserView
from backend.schemas.session import SessionView


class PeopleClient(Connection):
    """Who may use the server, and who did what."""

    def whoami(self) -> SessionView:
        """Whom the server takes this client for."""
        return self._read(SessionView, "GET", "/session")

    def users(self) -> list[UserView]:
        """Everybody who may use the server, with their tokens. For admins."""
        return self._list(UserView, "/users")

    def add_user(self, name: str, role: Role = "member") -> UserView:
        """Let somebody in. For admins."""
        return self._read(UserView, "POST", "/users", json={"name": name, "role": role})

    def change_user(self, name: str, role: Role) -> UserView:
        """Give somebody another role. For admins."""
        return self._read(UserView, "PATCH", f"/users/{quote(name, safe='')}", json={"role": role})

    def remove_user(self, name: str) -> None:
        """Send somebody away, with all their tokens. For admins."""
        self._send("DELETE", f"/users/{quote(name, safe='')}", json={})

    def tokens(self) -> list[TokenView]:
        """One's own tokens."""
        return self._list(TokenView, "/tokens")

    def make_token(
        self,
        name: str,
        *,
        user: str | None = None,
        scope: Role | None = None,
        days: int | None = None,
    ) -> NewToken:
        """A fresh token, whose `token` nobody says again. `user`: somebody else's, for admins. `scope`: what it may at
        most. `days`: after how many it expires, 0: never, None: as long as is usual, and no longer than the token that
        this client shows."""
        asked = {"name": name, "user": user, "scope": scope, "days": days}
        return self._read(NewToken, "POST", "/tokens", json=asked)

    def revoke_token(self, number: int) -> None:
        """Revoke a token, by its number."""
        self._send("DELETE", f"/tokens/{number}", json={})

    def audit(self, **query: Any) -> AuditPage:
        """A page of what was done, newest first; `query`: who, action, target, limit, cursor. For admins."""
        return self._read(AuditPage, "GET", "/audit", params=query)
