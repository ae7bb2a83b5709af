"""Users, tokens, and what was done by whom."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from backend.access.rights import Role
from backend.schemas import patterns
from backend.schemas.base import Schema
from backend.schemas.jobs import Page
from backend.schemas.lists import ListQuery

Name = Annotated[str, Field(pattern=patterns.USER)]
"""Of a user: it stands in addresses and in lists."""
DAYS = 90
"""After how many a token expires, unless somebody says otherwise."""


class TokenView(Schema):
    """A token, but for what it is."""

    id: int
    user: str
    """Whose it is."""
    name: str
    """What it is for."""
    scope: Role
    """The role that whoever shows it has at most."""
    environment: bool
    """It is the server's own: TRAINYARD_TOKEN, or what TRAINYARD_TOKEN_FILE holds."""
    created_at: datetime
    expires_at: datetime | None
    """Null: never."""
    last_used_at: datetime | None
    """To a minute. Null: never."""


class NewToken(TokenView):
    """A token that was made just now."""

    token: str
    """Shown this once: the server keeps its hash."""


class UserView(Schema):
    """Somebody who may use the server."""

    name: str
    role: Role
    """`viewer`: looks at everything. `member`: plans, launches and races, too, and cancels, changes and deletes what
    they made. `admin`: does so with everybody's, shares devices among projects, takes them out of use, and says who may
    use the server."""
    created_at: datetime
    removed_at: datetime | None
    """When they were removed; null: they may use the server."""
    tokens: list[TokenView]
    """Those that are not revoked."""


class UserRequest(Schema):
    """Who is to be let in."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    """Letters, digits, `.`, `_`, `-` and `@`. It is never changed."""
    role: Role = "member"


class RoleRequest(Schema):
    """What somebody may do from now on."""

    model_config = ConfigDict(extra="forbid")

    role: Role


class TokenRequest(Schema):
    """A token that is to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    """What it is for: `laptop`, `nightly runs`."""
    user: str | None = None
    """Whose. Null: one's own; only an admin makes somebody else's."""
    scope: Role | None = None
    """The role that whoever shows it has at most. Null: all that its user may, or that who asks may."""
    days: int | None = Field(default=None, ge=0, le=3_650)
    """After how many days it expires; 0: never. Not after the token by which it is made. Null: after 90, or with that
    token, where it expires before."""


class AuditDetails(Schema):
    """What was given, or taken. Null: it has nothing to do with it."""

    role: Role | None = None
    """A user's from then on; of one who was removed: what they had."""
    former_role: Role | None = None
    """What a user had before."""
    user: str | None = None
    """Whose token or webhook was made or removed."""
    name: str | None = None
    """What that token or webhook is called."""
    scope: Role | None = None
    """What that token may at most."""
    for_job: str | None = None
    """Id of the job for which another one had to make room."""
    expires_at: datetime | None = None
    """When that token expires; where there is a token and this is null: never."""
    tags: list[str] | None = None
    """All of a job's tags from then on."""
    former_tags: list[str] | None = None
    """The tags that it had before."""
    note: Literal["written", "removed"] | None = None
    """What was done to a job's note. What it says is not kept here."""
    baseline: str | None = None
    """The job that a job's speed-up is measured against from then on. Null beside a `former_baseline`: none."""
    former_baseline: str | None = None
    """The job that it was measured against before."""
    host: str | None = None
    """Of a webhook that was made or removed: scheme, name and port of its address."""
    attempt: int | None = None
    """Number of the attempt that was asked to make room."""
    devices: str | None = None
    """Those that were taken out of use, or given back, and whose they are."""
    ends_at: datetime | None = None
    """When these would come back by themselves; null: when somebody gives them back."""


class AuditEntryView(Schema):
    """One thing that somebody did, or wanted to do."""

    id: int
    at: datetime
    who: str | None
    """`the scheduler`: nobody asked for it, it follows from the rules. Null: whoever reached a server that asked
    nobody."""
    token: str | None
    """What their token is called."""
    action: str
    """The operation's id in this document."""
    target: str
    """`jobs/<id>`, `users/<name>`; what was made, where something was made."""
    address: str | None
    """Where the request came from."""
    status: int
    """What was answered: from 400 to 499 it was not done."""
    details: AuditDetails | None = None
    """Of users, tokens, labels, baselines and attempts, or for which job. Null: there is no more to say."""


class AuditPage(Page):
    """A page of the audit log, newest first."""

    items: list[AuditEntryView]


class AuditQuery(ListQuery):
    """Which entries."""

    who: str | None = Field(default=None, max_length=100)
    """A user's."""
    action: str | None = Field(default=None, max_length=50)
    """Of this operation."""
    target: str | None = Field(default=None, max_length=200)
    """About this thing: `jobs/<id>`."""
