"""Users, tokens, secrets, webhooks and the audit log, as methods of the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from backend.access.rights import Role
from backend.connection import Connection
from backend.schemas.people import AuditPage, NewToken, TokenView, UserView
from backend.schemas.secrets import SecretView
from backend.schemas.session import SessionView
from backend.schemas.webhooks import DeliveryPage, DeliveryView, NewWebhook, Told, WebhookView


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

    def secrets(self) -> list[SecretView]:
        """The names of one's own secrets."""
        return self._list(SecretView, "/secrets")

    def keep_secret(self, name: str, value: str) -> SecretView:
        """Keep a secret for one's own jobs. Nothing says it again."""
        return self._read(SecretView, "PUT", f"/secrets/{quote(name, safe='')}", json={"value": value})

    def remove_secret(self, name: str) -> None:
        """Forget a secret."""
        self._send("DELETE", f"/secrets/{quote(name, safe='')}", json={})

    def webhooks(self) -> list[WebhookView]:
        """One's own webhooks; of an admin everybody's."""
        return self._list(WebhookView, "/webhooks")

    def add_webhook(
        self,
        name: str,
        url: str,
        events: Sequence[Told] = ("job.ended", "race.ended"),
        *,
        everybodys: bool = False,
    ) -> NewWebhook:
        """Tell an address of one's own jobs and races, or of everybody's. The answer has the `key` by which messages
        are signed, which nobody says again."""
        asked = {"name": name, "url": url, "events": list(events), "everybodys": everybodys}
        return self._read(NewWebhook, "POST", "/webhooks", json=asked)

    def try_webhook(self, number: int) -> DeliveryView:
        """Send a webhook a message that says nothing."""
        return self._read(DeliveryView, "POST", f"/webhooks/{number}/test", json={})

    def deliveries(self, number: int, **query: Any) -> DeliveryPage:
        """A page of what a webhook was told, newest first; `query`: limit, cursor."""
        return self._read(DeliveryPage, "GET", f"/webhooks/{number}/deliveries", params=query)

    def remove_webhook(self, number: int) -> None:
        """Tell a webhook no more."""
        self._send("DELETE", f"/webhooks/{number}", json={})

    def audit(self, **query: Any) -> AuditPage:
        """A page of what was done, newest first; `query`: who, action, target, limit, cursor. For admins."""
        return self._read(AuditPage, "GET", "/audit", params=query)
