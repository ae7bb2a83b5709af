"""`trainyard users`, `trainyard tokens` and `trainyard audit`: who may use a server, and who did what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.access import token as files
from backend.access.rights import MEANS, ROLES, Role, one
from backend.cli.errors import reported, say
from backend.cli.jobs import AsJson, Url
from backend.cli.text import age, columns, out, out_json
from backend.client import Client
from backend.schemas.people import DAYS, AuditDetails, TokenView
from engine.errors import UnknownNameError

GROUP: dict[str, Any] = {
    "add_completion": False,
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
WHAT_ROLES_MAY = "; ".join(f"{role}: {means}" for role, means in MEANS.items())
users = typer.Typer(name="users", help="Who may use the server. For admins.", **GROUP)
tokens = typer.Typer(name="tokens", help="What people and programs show a server.", **GROUP)
User = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
RoleAsked = Annotated[str, typer.Option(help=f"What they may do. {WHAT_ROLES_MAY}.")]


@users.command("list")
def list_users(url: Url = None, as_json: AsJson = False) -> None:
    """List users, what each may do, and how many tokens they have."""
    with reported(), Client(url) as client:
        found = client.users()
    if as_json:
        for user in found:
            out_json(user, lines=False)
        return
    rows = [(user.name, user.role, str(len(user.tokens)), age(user.created_at)) for user in found]
    out(columns(("name", "role", "tokens", "age"), rows) if found else "the server asks nobody who they are")


@users.command("add")
def add_user(name: User, role: RoleAsked = "member", url: Url = None) -> None:
    """Let somebody in, or back in."""
    with reported(), Client(url) as client:
        user = client.add_user(name, _role("role", role))
    say(f"{user.name} is {one(user.role)}. A token for them: trainyard tokens new first --user {user.name}")


@users.command("role")
def change_user(
    name: User, role: Annotated[str, typer.Argument(help=WHAT_ROLES_MAY)], url: Url = None
) -> None:
    """Give somebody another role, at once."""
    with reported(), Client(url) as client:
        client.change_user(name, _role("role", role))


@users.command("remove")
def remove_user(name: User, url: Url = None) -> None:
    """Send somebody away, with all their tokens. What they made stays."""
    with reported(), Client(url) as client:
        client.remove_user(name)


@tokens.command("list")
def list_tokens(
    user: Annotated[str | None, typer.Option(help="Somebody else's, for admins; all: everybody's.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List your tokens; revoked ones are not among them."""
    with reported(), Client(url) as client:
        found = client.tokens() if user is None else _of(client, user)
    if as_json:
        for token in found:
            out_json(token, lines=False)
        return
    head = ("number", "user", "name", "may", "expires", "last used")
    out(columns(head, map(_row, found)) if found else "no tokens")


@tokens.command("new")
def make_token(
    name: Annotated[str, typer.Argument(help="What it is for: laptop, nightly.")],
    user: Annotated[str | None, typer.Option(help="Whose, for admins; else your own.")] = None,
    scope: Annotated[str | None, typer.Option(help="The role that it has at most.")] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=3_650,
            help=f"After how many it expires; 0: never. Else {DAYS}, or when yours does, if sooner.",
        ),
    ] = None,
    out_: Annotated[
        Path | None,
        typer.Option("--out", help="A new file that only you can read, for TRAINYARD_TOKEN_FILE."),
    ] = None,
    url: Url = None,
) -> None:
    """Make a token and print it. Nobody can say it again: keep it."""
    with reported(), Client(url) as client:
        role = None if scope is None else _role("scope", scope)
        made = client.make_token(name, user=user, scope=role, days=days)
        if out_ is not None:
            try:
                files.write(made.token, out_)
            except BaseException:
                client.revoke_token(made.id)  # nobody has it
                raise
    if out_ is None:
        typer.echo(made.token)
    expires = "" if made.expires_at is None else f", until {made.expires_at:%Y-%m-%d}"
    say(f"token {made.id} of {made.user}, who may with it what {one(made.scope)} may{expires}")


@tokens.command("revoke")
def revoke_token(
    number: Annotated[
        int, typer.Argument(min=1, help="The token's number, as `trainyard tokens list` has it.")
    ],
    url: Url = None,
) -> None:
    """Revoke a token. Whoever signed in with it is signed out."""
    with reported(), Client(url) as client:
        client.revoke_token(number)


def audit(
    who: Annotated[str | None, typer.Option(help="Only this user's.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this operation, e.g. cancel_job.")] = None,
    target: Annotated[str | None, typer.Option(help="Only about this, e.g. jobs/<id>.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List who did what to which thing, when, and from where; newest first. For admins."""
    with reported(), Client(url) as client:
        found = client.audit(who=who, action=action, target=target, limit=limit).items
    if as_json:
        for entry in found:
            out_json(entry, lines=False)
        return
    rows = [
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.who or "-", entry.action, entry.target, entry.address or "-",
            str(entry.status), _given(entry.details),
        )
        for entry in found
    ]  # fmt: skip
    out(columns(("when (UTC)", "who", "did", "to", "from", "answer", "what"), rows))


def _given(details: AuditDetails | None) -> str:
    """`viewer, was member`; `laptop of ada, viewer, until 2026-12-24`; `for jobs/<id>`; `tags a, b, were a`."""
    if details is None:
        return ""
    if details.for_job is not None:
        return f"for jobs/{details.for_job}"
    if details.role is None and details.scope is None:
        return "; ".join(_of_job(details))
    if details.scope is None:
        was = "" if details.former_role is None else f", was {details.former_role}"
        return f"{details.role}{was}"
    until = "never expires" if details.expires_at is None else f"until {details.expires_at:%Y-%m-%d}"
    return f"{details.name} of {details.user}, {details.scope}, {until}"


def _of_job(details: AuditDetails) -> Iterator[str]:
    """What was done to a job."""
    if details.tags is not None:
        yield f"tags {_listed(details.tags)}, were {_listed(details.former_tags)}"
    if details.note is not None:
        yield f"note {details.note}"
    if details.baseline or details.former_baseline:
        yield f"baseline {details.baseline or 'none'}, was {details.former_baseline or 'none'}"
    if details.attempt is not None:
        yield f"attempt {details.attempt}"
    if details.host is not None:
        yield f"{details.name} to {details.host}"


def _listed(tags: list[str] | None) -> str:
    return ", ".join(tags or ()) or "none"


def _of(client: Client, user: str) -> list[TokenView]:
    return [token for each in client.users() if user in (each.name, "all") for token in each.tokens]


def _role(field: str, text: str) -> Role:
    for role in ROLES:
        if text == role:
            return role
    raise UnknownNameError(field, text, "role", ROLES)


def _row(token: TokenView) -> tuple[str, ...]:
    return (
        str(token.id),
        token.user,
        token.name,
        token.scope,
        "never" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d}",
        "never" if token.last_used_at is None else f"{age(token.last_used_at)} ago",
    )
