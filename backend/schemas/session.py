"""Signing in with a browser."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from backend.access.rights import Role
from backend.schemas.base import Schema

Kind = Literal["token", "loopback", "insecure"]
"""Whom a server answers."""


class SignIn(BaseModel):
    """What a person shows."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid", hide_input_in_errors=True)

    token: SecretStr
    """One of theirs."""


class SessionView(Schema):
    """Whom this server answers, and whether that includes who asks."""

    access: Kind
    """`token`: who shows a user's token. `loopback`: everybody, on this machine only. `insecure`: everybody who
    reaches it, as its `--insecure` wants."""
    signed_in: bool
    """Whether everything else is answered, too, as far as the role goes."""
    user: str | None = None
    """Who asks. Null: nobody in particular."""
    role: Role | None = None
    """What they may. Null: nothing, before they sign in."""
    admins: list[str] = []
    """Who may give others another role, by name; empty before one signs in, and where nobody is asked."""
    ends_unix_ns: int | None = None
    """When the browser's session ends; null where there is none."""
    newest_notice: int | None = None
    """The id of the newest notice, where everything is answered: who asks for data now, and for the notices after this
    one, misses nothing."""
