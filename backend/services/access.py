"""Who asks: programs that show a user's token, browsers that signed in with one.

Where people are not asked (`Settings.asks`) it is everybody who reaches the address, which then is loopback, or was
opened with `--insecure`.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import threading
import time
from dataclasses import replace

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backend.access.addresses import parsed
from backend.access.allowance import Allowances
from backend.access.guesses import Guesses
from backend.access.rights import Caller
from backend.db import Database
from backend.db.models import SignIn
from backend.schemas.session import Kind
from backend.services import first_admin
from backend.services.errors import Conflict, TooManyGuesses, Unauthorized
from backend.services.known_tokens import CHANGED, KnownTokens, digest, tell
from backend.services.watch import Watch
from backend.settings import Settings

SESSION_S = 7 * 24 * 3600
"""How long a browser stays signed in, unless its token ends before."""
MOST_SESSIONS = 1000
"""At one time: a program that signs in again and again does not fill the database. The oldest end first."""
REMEDY = (
    "The command line and the Python client read TRAINYARD_TOKEN, or the file that TRAINYARD_TOKEN_FILE names; other "
    "programs send `Authorization: Bearer` and the token; in a browser, sign in on the page. An admin makes tokens"
)
logger = logging.getLogger(__name__)


class Access:
    """Safe to use from many threads. Tokens and sessions are kept in memory, and in the database for the next start and
    for other servers. Where there are others, `watch` follows what they change: start it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        """Reads tokens, and the sessions of earlier starts."""
        self.required = settings.asks
        """Whether this server asks who one is."""
        self.kind: Kind = "token" if self.required else "insecure" if settings.insecure else "loopback"
        self.tokens = KnownTokens(database)
        self.fresh: str | None = None
        """The first admin's token, where this start made it: shown once, and stored nowhere."""
        self.begun = False
        """The start has come to its end, so that it can be shown."""
        self.allowances = Allowances(settings.token_requests_per_second)
        self._database = database
        self._guesses = Guesses()
        self._lock = threading.Lock()
        self._changing = threading.Lock()
        """Held from the commit of a session until it is kept here: what is read meanwhile may lack it."""
        self.watch = Watch(database, "access", self._look, kinds=(CHANGED,))
        self._sessions: dict[str, tuple[int, int]] = {}
        """By the hash of its id: when each ends, and the token that it was begun with."""
        if self.required:
            self.fresh = first_admin.ensure(database, self.tokens, settings.own_token)
            self._read_sessions()

    def by_token(self, given: bytes, client: str | None) -> Caller:
        """Whose token it is. Raises Unauthorized, or TooManyGuesses where `client`, an address, has tried too many
        that are nobody's."""
        sought, now, counted = digest(given), time.monotonic(), False
        with self._lock:
            repeated = self._guesses.repeats(client, sought)
            if not repeated and (wait_s := self._guesses.wait_s(client, now)):
                raise TooManyGuesses(
                    f"too many wrong tokens came from {client or 'this address'}: no token from there is looked "
                    f"at for {math.ceil(wait_s)} s. Correct the program that sends them, and try again then",
                    retry_after_s=wait_s,
                )
            # Also of one that was wrong before: another server may have made it only now.
            caller = self.tokens.by_digest(sought) if self.required else None
            if caller is not None and caller.token_id is not None:
                self.tokens.used(caller.token_id)
                return caller
            if not repeated:
                self._guesses.wrong(client, sought, now)
                counted = True
        if counted:
            logger.warning("a wrong token came from %s", parsed(client or "") or "an unknown address")
        raise Unauthorized("this token is nobody's, or it has expired or was revoked", REMEDY)

    def by_session(self, id_: str) -> Caller | None:
        """Who signed in so; None where nobody did, or the session has ended."""
        ends, token_id = self._sessions.get(_hash(id_), (0, 0))
        if ends <= time.time_ns() or (caller := self.tokens.by_id(token_id)) is None:
            return None
        self.tokens.used(token_id)
        return replace(caller, ends_unix_ns=ends)

    def stands(self, caller: Caller) -> bool:
        """Whether the token that somebody showed still opens what it did."""
        if caller.token_id is None:
            return not self.required
        now = self.tokens.by_id(caller.token_id)
        return now is not None and now.role == caller.role

    def sign_in(self, token: str, client: str | None, former: str | None = None) -> tuple[str, Caller]:
        """A new session's id, and whose it is. `former`: the id that the browser had, which ends: it has forgotten it,
        and nobody else is to have it. Raises as `by_token` does, and Conflict where nobody need sign in."""
        if not self.required:
            raise Conflict("this server asks for no token: nobody need sign in")
        caller = self.by_token(token.strip().encode(errors="surrogatepass"), client)
        assert caller.token_id is not None
        expires = self.tokens.expires_unix_ns(caller.token_id)
        id_, ends = secrets.token_urlsafe(32), min(time.time_ns() + SESSION_S * 10**9, expires)
        key, token_id = _hash(id_), caller.token_id

        def write(session: Session) -> None:
            session.execute(delete(SignIn).where(SignIn.id_sha256.in_(over)))
            session.add(SignIn(id_sha256=key, token_id=token_id, ends_unix_ns=ends))
            tell(self._database, session)

        with self._changing:
            over = self._make_room()
            if former is not None and self._sessions.pop(_hash(former), None) is not None:
                over.append(_hash(former))
            self._database.writer.run(write)
            self._sessions[key] = (ends, token_id)
        return id_, replace(caller, ends_unix_ns=ends)

    def sign_out(self, id_: str) -> None:
        """End a session for good, also for whoever copied its cookie. Without effect where there is none."""
        key = _hash(id_)
        if key not in self._sessions:
            return

        def write(session: Session) -> None:
            session.execute(delete(SignIn).where(SignIn.id_sha256 == key))
            tell(self._database, session)

        with self._changing:
            self._database.writer.run(write)
            self._sessions.pop(key, None)

    def close(self) -> None:
        """Stop to follow. Where the start fails, nobody has seen the first admin's token: the next makes another."""
        self.watch.close()
        if self.fresh is not None and not self.begun:
            first_admin.take_back(self._database, self.fresh)

    def _look(self) -> None:
        """Another server may have changed who is admitted."""
        self.tokens.load()
        self._read_sessions()

    def _read_sessions(self) -> None:
        with self._changing, self._database.read() as session:
            rows = session.scalars(select(SignIn))
            self._sessions = {row.id_sha256: (row.ends_unix_ns, row.token_id) for row in rows}

    def _make_room(self) -> list[str]:
        """Forget sessions that have ended, and the oldest where there are too many; which ones."""
        now = time.time_ns()
        with self._lock:
            oldest_first = sorted(self._sessions.items(), key=lambda item: item[1])
            many = max(0, len(oldest_first) - MOST_SESSIONS + 1)
            over = [
                key
                for place, (key, (ends, token_id)) in enumerate(oldest_first)
                if place < many or ends <= now or self.tokens.by_id(token_id) is None
            ]
            for key in over:
                self._sessions.pop(key, None)
        return over


def _hash(id_: str) -> str:
    """What is kept of a session's id, which has 256 random bits."""
    return hashlib.sha256(id_.encode()).hexdigest()
