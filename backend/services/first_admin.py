"""Somebody may administer a server that asks who one is, from its first start on.

Where the server has a token of its own (TRAINYARD_TOKEN), that is the user `admin`'s. Where it has none, and no admin
has a token that still opens something, `admin` gets a fresh one, which the server shows once as it starts: whoever can
start it may do everything in any case. So who has lost the last admin's token restarts with a token of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import time

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from backend.access.token import VARIABLE, new_token
from backend.db import Database
from backend.db.models import SignIn, Token, User
from backend.services.known_tokens import KnownTokens, digest, tell
from engine.errors import UserError

ADMIN = "admin"
"""The first user's name."""
FIRST = "first start"
"""What a token is called that the server made."""
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
"""16 MiB and some 50 ms for each guess at a token that somebody chose."""


def ensure(database: Database, known: KnownTokens, own: str | None) -> str | None:
    """Give `admin` what is said above, and load the tokens. `own`: the server's. Returns the fresh one, where one was
    made. Raises UserError where `own` is somebody's who may not administer."""

    def write(session: Session) -> tuple[int | None, str | None]:
        tell(database, session)
        if own is not None:
            return _own(session, own), None
        _retire(session)
        return None, None if may_administer(session) else _fresh(session)

    own_id, fresh = database.writer.run(write)
    known.load(None if own is None or own_id is None else (own_id, digest(own.encode())))
    return fresh


def take_back(database: Database, fresh: str) -> None:
    """Nobody has this token: it was never shown."""
    mine = Token.hash == digest(fresh.encode()).hex()
    database.writer.run(
        lambda session: session.execute(update(Token).where(mine).values(revoked_unix_ns=time.time_ns()))
    )


def may_administer(session: Session) -> bool:
    """Whether some admin has a token that opens something, and everything."""
    found = (
        select(Token.id)
        .join(User, User.id == Token.user_id)
        .where(User.role == "admin", User.removed_unix_ns.is_(None), Token.scope == "admin")
        .where(Token.revoked_unix_ns.is_(None))
        .where(or_(Token.expires_unix_ns.is_(None), Token.expires_unix_ns > time.time_ns()))
    )
    return session.execute(found.limit(1)).first() is not None


def _own(session: Session, own: str) -> int | None:
    """The id of the row of the server's own token; None where it is one of ours, an admin's, which is found as such."""
    newest = session.scalars(
        select(Token).where(Token.environment).order_by(Token.id.desc()).limit(1)
    ).first()
    if newest is not None and hmac.compare_digest(newest.hash, _slow(own, newest.created_unix_ns)):
        newest.revoked_unix_ns = None
        newest.user_id = _admin(session).id
        return newest.id
    _retire(session)
    ours = session.scalars(select(Token).where(Token.hash == digest(own.encode()).hex())).first()
    if ours is not None:
        _check_admins(session, ours)
        return None
    now = time.time_ns()
    row = Token(
        user_id=_admin(session).id, name=VARIABLE, scope="admin", hash=_slow(own, now), environment=True,
        created_unix_ns=now,
    )  # fmt: skip
    session.add(row)
    session.flush()
    return row.id


def _check_admins(session: Session, ours: Token) -> None:
    user = session.get_one(User, ours.user_id)
    live = ours.revoked_unix_ns is None and (
        ours.expires_unix_ns is None or ours.expires_unix_ns > time.time_ns()
    )
    if not live or user.removed_unix_ns is not None or (user.role, ours.scope) != ("admin", "admin"):
        rule = f"is a token of the user {user.name!r} that " + (
            "does not open everything" if live else "has been revoked, or has expired"
        )
        remedy = (
            "Start the server without it, or with another one, which is the admin's then: trainyard token"
        )
        raise UserError(VARIABLE, f"({ours.name})", rule, remedy)


def _fresh(session: Session) -> str:
    token = new_token()
    session.add(
        Token(
            user_id=_admin(session).id, name=FIRST, scope="admin", hash=digest(token.encode()).hex(),
            created_unix_ns=time.time_ns(),
        )
    )  # fmt: skip
    return token


def _admin(session: Session) -> User:
    """The user, as an admin, whatever was done to them."""
    user = session.scalars(select(User).where(User.name == ADMIN)).first()
    if user is None:
        user = User(name=ADMIN, role="admin", created_unix_ns=time.time_ns())
        session.add(user)
    user.role, user.removed_unix_ns = "admin", None
    session.flush()
    return user


def _retire(session: Session) -> None:
    """The server has this token no more: nobody has."""
    for row in session.scalars(select(Token).where(Token.environment, Token.revoked_unix_ns.is_(None))):
        row.revoked_unix_ns = time.time_ns()
        for begun in session.scalars(select(SignIn).where(SignIn.token_id == row.id)):
            session.delete(begun)


def _slow(token: str, salt: int) -> str:
    """What is stored of a token that a person may have chosen."""
    return hashlib.scrypt(token.encode(), salt=str(salt).encode(), **SCRYPT).hex()
