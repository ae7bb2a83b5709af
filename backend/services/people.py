"""Users and their tokens: let in, given another role, sent away; made, listed, revoked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from backend.access.rights import ROLES, Caller, Role, lesser, may
from backend.access.token import VARIABLE, new_token
from backend.db import Database
from backend.db.models import Job, Race, Secret, SignIn, Token, User, Webhook
from backend.lifecycle import ENDED
from backend.schemas import people as schema
from backend.services.access import Access
from backend.services.errors import Conflict, Forbidden, NotFound
from backend.services.first_admin import may_administer
from backend.services.known_tokens import check_stands, digest, tell
from backend.services.stored_races import RUNNING
from backend.services.times import moment, moment_or_none
from engine.errors import UserError

T = TypeVar("T")
DAY_NS = 24 * 3600 * 10**9
MOST_TOKENS = 100
"""Of one user, that are not revoked."""


class People:
    """Those of one database."""

    def __init__(self, database: Database, access: Access) -> None:
        self._database = database
        self._access = access

    def users(self, *, removed: bool = False) -> list[schema.UserView]:
        """By name; with `removed` also those who were removed."""
        query = select(User).order_by(User.name)
        if not removed:
            query = query.where(User.removed_unix_ns.is_(None))
        with self._database.read() as session:
            return [_user(session, row) for row in session.scalars(query)]

    def add(self, asked: schema.UserRequest) -> schema.UserView:
        """Let somebody in, or back in. Raises Conflict where a user has that name."""
        self._check_asked()

        def write(session: Session) -> None:
            row = session.scalars(select(User).where(User.name == asked.name)).first()
            if row is not None and row.removed_unix_ns is None:
                rule = "is a user already"
                error = UserError("name", asked.name, rule, "Take another name, or change that one's role")
                raise Conflict(str(error), [error])
            if row is None:
                session.add(User(name=asked.name, role=asked.role, created_unix_ns=time.time_ns()))
            else:
                row.role, row.removed_unix_ns = asked.role, None

        self._database.writer.run(write)
        return self._show(asked.name)

    def change(self, name: str, role: Role) -> tuple[schema.UserView, Role]:
        """Give somebody another role, at once also where they are signed in; them, and the role that they had. Raises
        NotFound, and Conflict where nobody could administer then."""
        self._check_asked()

        def write(session: Session) -> Role:
            row = _find(session, name)
            former = cast(Role, row.role)
            if former != role:
                _check_own(session, row)
            row.role = role
            _check_admin(session)
            return former

        former = self._write(write)
        return self._show(name), former

    def remove(self, name: str) -> Role:
        """Send somebody away: none of their tokens opens anything, and they are signed out everywhere. What they made
        stays, under their name. Answers their role. Raises as `change` does, and Conflict while something of theirs
        that has not ended names secrets."""
        self._check_asked()

        def write(session: Session) -> Role:
            row = _find(session, name)
            _check_own(session, row)
            _check_secrets(session, name)
            row.removed_unix_ns = time.time_ns()
            theirs = list(session.scalars(select(Token.id).where(Token.user_id == row.id)))
            _revoke(session, theirs)
            _check_admin(session)
            # Whoever comes back under the name is somebody else, perhaps.
            session.execute(delete(Secret).where(Secret.owner == name))
            session.execute(delete(Webhook).where(Webhook.owner == name))
            return cast(Role, row.role)

        return self._write(write)

    def tokens(self, caller: Caller) -> list[schema.TokenView]:
        """The caller's own, newest first. Of a server that asks nobody: none."""
        with self._database.read() as session:
            row = None if caller.name is None else _live(session, caller.name)
            return [] if row is None else _tokens(session, row)

    def make(self, caller: Caller, asked: schema.TokenRequest) -> schema.NewToken:
        """A fresh token. Raises Forbidden where it would be somebody else's, or may more than who asks, NotFound for a
        user that is none, UserError for a scope beyond the user's role or where it would outlive the token that the
        caller has shown, Conflict for one too many, and Unauthorized or Forbidden where the caller may not any more."""
        self._check_asked()
        name = asked.user or caller.name
        assert name is not None  # who asks has shown a token
        if name != caller.name and caller.role != "admin":
            raise Forbidden(f"make_token for {name!r} is an admin's", "Make one of your own, or ask an admin")
        secret, now = new_token(), time.time_ns()

        def write(session: Session) -> int:
            check_stands(session, caller)
            user = _find(session, name)
            role = cast(Role, user.role)
            scope = asked.scope or lesser(role, caller.role)
            if not may(role, scope):
                several = ", ".join(ROLES[: ROLES.index(role) + 1])
                raise UserError(
                    "scope", scope, f"{name} is a {role}, and may not do that", f"Use one of {several}"
                )
            if not may(caller.role, scope):
                raise Forbidden(f"this token may not make one that may more ({scope})", "Use another scope")
            if len(_tokens(session, user)) >= MOST_TOKENS:
                raise Conflict(f"{name} has {MOST_TOKENS} tokens, which is the most. Revoke some")
            row = Token(
                user_id=user.id,
                name=asked.name,
                scope=scope,
                hash=digest(secret.encode()).hex(),
                created_unix_ns=now,
                expires_unix_ns=_expires_unix_ns(session, caller, asked, now),
            )
            session.add(row)
            session.flush()
            return row.id

        id_ = self._write(write)
        with self._database.read() as session:
            view = _token(session.get_one(Token, id_), name)
        return schema.NewToken(**dict(view), token=secret)

    def revoke(self, caller: Caller, token_id: int) -> schema.TokenView:
        """It opens nothing any more, and whoever signed in with it is signed out. Answers what it was. Raises NotFound,
        also for another user's where who asks is no admin, Forbidden for one that may more than who asks, and Conflict
        for the server's own or the last admin's."""
        self._check_asked()

        def write(session: Session) -> schema.TokenView:
            row = session.get(Token, token_id)
            user = None if row is None else session.get_one(User, row.user_id)
            theirs = user is not None and (user.name == caller.name or caller.role == "admin")
            if row is None or user is None or row.revoked_unix_ns is not None or not theirs:
                raise NotFound(f"id = {token_id}: no such token. GET /api/v1/tokens lists yours")
            opens = lesser(cast(Role, user.role), cast(Role, row.scope))
            if not may(caller.role, opens):
                rule = f"this token may not revoke one that may more ({opens})"
                raise Forbidden(rule, "Show that one, or one of as wide a scope")
            if row.environment:
                raise Conflict(
                    f"this is the server's own token. Start it without {VARIABLE}, or with another one"
                )
            _revoke(session, [token_id])
            _check_admin(session)
            return _token(row, user.name)

        return self._write(write)

    def _show(self, name: str) -> schema.UserView:
        with self._database.read() as session:
            return _user(session, _find(session, name))

    def _write(self, write: Callable[[Session], T]) -> T:
        def told(session: Session) -> T:
            found = write(session)
            tell(self._database, session)
            return found

        found = self._database.writer.run(told)
        self._access.tokens.load()
        return found

    def _check_asked(self) -> None:
        """Where nobody is asked, nobody is let in: a stranger's token would still be one when people are asked."""
        if not self._access.required:
            raise Conflict(
                "this server asks nobody who they are, so it has no users. Start it with --people, with TRAINYARD_TOKEN"
                " set, or on an address that other machines reach and without --insecure"
            )


def _live(session: Session, name: str) -> User | None:
    return session.scalars(select(User).where(User.name == name, User.removed_unix_ns.is_(None))).first()


def _find(session: Session, name: str) -> User:
    row = _live(session, name)
    if row is None:
        raise NotFound(f"name = {name!r}: no such user. GET /api/v1/users lists them")
    return row


def _expires_unix_ns(session: Session, caller: Caller, asked: schema.TokenRequest, now: int) -> int | None:
    """When the token that is asked for expires; None: never. Raises UserError where that is after the caller's own:
    else who finds a token that ends tomorrow would have the rights for ever."""
    shown = None if caller.token_id is None else session.get_one(Token, caller.token_id).expires_unix_ns
    days = schema.DAYS if asked.days is None else asked.days
    expires = now + days * DAY_NS if days else None
    if shown is None or (expires is not None and expires <= shown):
        return expires
    if asked.days is None:
        return shown
    whole = (shown - now) // DAY_NS
    fewer = f"Ask for {whole} or fewer, or for none" if whole > 0 else "Ask for no number"
    rule = (
        f"0 is never, and no token outlives the one that makes it, which expires on {moment(shown):%Y-%m-%d}"
    )
    raise UserError(
        "days", asked.days, rule, f"{fewer}: then both expire together. Or show one that lasts longer"
    )


def _revoke(session: Session, ids: list[int]) -> None:
    live = update(Token).where(Token.id.in_(ids), Token.revoked_unix_ns.is_(None))
    session.execute(live.values(revoked_unix_ns=time.time_ns()))
    session.execute(delete(SignIn).where(SignIn.token_id.in_(ids)))


def _check_admin(session: Session) -> None:
    """Raises Conflict, so that nothing is changed, where nobody could administer then."""
    session.flush()
    if not may_administer(session):
        raise Conflict("nobody could administer this server then. Make another admin, with a token, first")


def _check_own(session: Session, user: User) -> None:
    """Raises Conflict for who has the server's own token: the next start would undo it."""
    own = select(Token.id).where(Token.user_id == user.id, Token.environment, Token.revoked_unix_ns.is_(None))
    if session.execute(own.limit(1)).first() is not None:
        raise Conflict(f"{user.name} has the server's own token. Start it without {VARIABLE} first")


def _check_secrets(session: Session, name: str) -> None:
    """Raises Conflict where something of this user's is still to be given secrets: it would get those of whoever comes
    back under the name."""
    jobs = select(Job.id, Job.spec["secrets"].as_json()).where(Job.owner == name, Job.state.not_in(ENDED))
    races = select(Race.id, Race.spec[("job", "secrets")].as_json()).where(
        Race.owner == name, Race.state == RUNNING
    )
    for what, query in (("job", jobs), ("race", races)):
        for id_, secrets in session.execute(query):
            if secrets:
                raise Conflict(
                    f"{what} {id_} of {name} has not ended and names secrets, which would be those of the next user of "
                    "that name. Cancel it, or wait for its end, and remove the user then"
                )


def _user(session: Session, row: User) -> schema.UserView:
    return schema.UserView(
        name=row.name,
        role=cast(Role, row.role),
        created_at=moment(row.created_unix_ns),
        removed_at=moment_or_none(row.removed_unix_ns),
        tokens=_tokens(session, row),
    )


def _tokens(session: Session, user: User) -> list[schema.TokenView]:
    live = select(Token).where(Token.user_id == user.id, Token.revoked_unix_ns.is_(None))
    return [_token(row, user.name) for row in session.scalars(live.order_by(Token.id.desc()))]


def _token(row: Token, user: str) -> schema.TokenView:
    return schema.TokenView(
        id=row.id,
        user=user,
        name=row.name,
        scope=cast(Role, row.scope),
        environment=row.environment,
        created_at=moment(row.created_unix_ns),
        expires_at=moment_or_none(row.expires_unix_ns),
        last_used_at=moment_or_none(row.last_used_unix_ns),
    )
