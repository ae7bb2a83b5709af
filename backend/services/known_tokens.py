"""The tokens that open something now, in memory: every request shows one, or a session that was begun with one.

Whatever changes a token or its user says so here and, on a database that several servers share, to the others (`tell`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from backend.access.rights import Caller, Role, lesser, may
from backend.db import Database, WriterError, notify
from backend.db.models import Token, User
from backend.services.errors import Forbidden, Unauthorized

USED_EVERY_NS = 60 * 10**9
"""How old the stored time of a token's last use may become before it is written again: not with every request."""
NEVER_NS = 2**62
CHANGED = "access"
"""Kind of the notice that a token, a user or a session is not what it was."""


def digest(token: bytes) -> bytes:
    """What is compared and kept of a token of ours: of one length whatever was sent. It has 256 random bits, so one
    SHA-256 is enough: there is nothing to guess."""
    return hashlib.sha256(token).digest()


def tell(database: Database, session: Session) -> None:
    """Inside of the transaction that changes a token, a user or a session: other servers look at them again."""
    if database.shared:
        notify(session, None, CHANGED, {})


def check_stands(session: Session, caller: Caller) -> None:
    """Inside of the transaction that stores something under the caller's name: raises Unauthorized where their token
    was revoked, or they were removed, since they were let in, and Forbidden where they may less by now. A plan takes
    seconds, and what is stored after a removal would be left to whoever comes back under the name."""
    if caller.token_id is None:
        return  # nobody was asked
    token = session.get_one(Token, caller.token_id)
    user = session.get_one(User, token.user_id)
    if token.revoked_unix_ns is not None or user.removed_unix_ns is not None:
        raise Unauthorized(
            "this token was revoked while it was used, so nothing was stored", "Show another one"
        )
    if not may(_caller(token, user).role, caller.role):
        rule = f"what {user.name} may has changed while this was asked, so nothing was stored"
        raise Forbidden(rule, "Ask again")


@dataclass(frozen=True)
class _Known:
    callers: Mapping[int, Caller] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    """By digest, in hexadecimal digits."""
    expires: Mapping[int, int] = field(default_factory=dict)
    """Of those that expire."""


class KnownTokens:
    """Safe to use from many threads: what is read is replaced as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loading = threading.Lock()
        self._chosen: tuple[int, str] | None = None
        self._known = _Known()
        self._used: dict[int, int] = {}

    def load(self, chosen: tuple[int, bytes] | None = None) -> None:
        """Read them, after the commit of what has changed. `chosen`: id and digest of the server's own, of which the
        database has another hash."""
        rows = (
            select(Token, User)
            .join(User, User.id == Token.user_id)
            .where(Token.revoked_unix_ns.is_(None), User.removed_unix_ns.is_(None))
        )
        # One after another: who read before a commit must not answer for who reads after it.
        with self._loading, self._database.read() as session:
            if chosen is not None:
                self._chosen = (chosen[0], chosen[1].hex())
            found = [(token, _caller(token, user)) for token, user in session.execute(rows)]
            ids = {token.hash: token.id for token, _ in found if not token.environment}
            if self._chosen is not None:
                ids[self._chosen[1]] = self._chosen[0]
            for token, _ in found:
                self._used.setdefault(token.id, token.last_used_unix_ns or 0)
            self._known = _Known(
                callers={token.id: caller for token, caller in found},
                ids=ids,
                expires={token.id: end for token, _ in found if (end := token.expires_unix_ns) is not None},
            )

    def by_digest(self, sought: bytes) -> Caller | None:
        """Whose token has this digest; None where nobody's has, or it has expired."""
        id_ = self._known.ids.get(sought.hex())
        return None if id_ is None else self.by_id(id_)

    def by_id(self, id_: int) -> Caller | None:
        """The same by the token's number."""
        known = self._known
        return known.callers.get(id_) if known.expires.get(id_, NEVER_NS) > time.time_ns() else None

    def expires_unix_ns(self, id_: int) -> int:
        """When it expires; far away where it never does."""
        return self._known.expires.get(id_, NEVER_NS)

    def admins(self) -> list[str]:
        """The users who may administer with a token that they have, by name."""
        known = (self.by_id(id_) for id_ in self._known.callers)
        return sorted({caller.name for caller in known if caller and caller.name and caller.role == "admin"})

    def used(self, id_: int) -> None:
        """Somebody has shown it now. Written to the database without waiting, and not for every request."""
        now = time.time_ns()
        if now - self._used.get(id_, 0) < USED_EVERY_NS:
            return
        self._used[id_] = now

        def write(session: Session) -> None:
            session.execute(update(Token).where(Token.id == id_).values(last_used_unix_ns=now))

        with suppress(WriterError):  # the server is ending
            self._database.writer.submit(write)


def _caller(token: Token, user: User) -> Caller:
    role = lesser(cast(Role, user.role), cast(Role, token.scope))
    return Caller(name=user.name, role=role, token_id=token.id, token_name=token.name)
