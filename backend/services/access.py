"""Who may use this server: programs that send its token, browsers that signed in with it.

Without a token it is everybody who reaches the address, which then is loopback, or was opened with `--insecure`.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import secrets
import threading
import time

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backend.access.addresses import parsed
from backend.access.guesses import Guesses
from backend.db import Database
from backend.db.models import SignIn
from backend.schemas.session import Kind
from backend.services.errors import Conflict, TooManyGuesses, Unauthorized
from backend.settings import Settings

SESSION_S = 7 * 24 * 3600
"""How long a browser stays signed in."""
MOST_SESSIONS = 1000
"""At one time: a program that signs in again and again does not fill the database. The oldest end first."""
REMEDY = (
    "The command line and the Python client read TRAINYARD_TOKEN, or the file that TRAINYARD_TOKEN_FILE names; other "
    "programs send `Authorization: Bearer` and the token; in a browser, sign in on the page"
)
logger = logging.getLogger(__name__)


class Access:
    """Safe to use from many threads. Sessions are kept in memory and, for the next start, in the database: one server
    has one database (`lock.py`)."""

    def __init__(self, database: Database, settings: Settings) -> None:
        """Reads the sessions of earlier starts."""
        token = settings.token
        self.required = token is not None
        """Whether this server asks for its token."""
        self.kind: Kind = "token" if self.required else "insecure" if settings.insecure else "loopback"
        self._database = database
        self._key = token.get_secret_value().encode() if token is not None else b""
        self._digest = _digest(self._key)
        self._guesses = Guesses()
        self._lock = threading.Lock()
        with database.read() as session:
            self._ends = {row.id_hmac: row.ends_unix_ns for row in session.scalars(select(SignIn))}

    def check_token(self, given: bytes, client: str | None) -> None:
        """Returns where `given` is the server's token. Raises Unauthorized, or TooManyGuesses where `client`, an
        address, has tried too many others."""
        digest, now, counted = _digest(given), time.monotonic(), False
        with self._lock:
            if not self._guesses.repeats(client, digest):
                if wait_s := self._guesses.wait_s(client, now):
                    raise TooManyGuesses(
                        f"too many wrong tokens came from {client or 'this address'}: no token from there is looked "
                        f"at for {math.ceil(wait_s)} s. Correct the program that sends them, and try again then",
                        retry_after_s=wait_s,
                    )
                if self.required and hmac.compare_digest(digest, self._digest):
                    return
                self._guesses.wrong(client, digest, now)
                counted = True
        if counted:
            logger.warning("a wrong token came from %s", parsed(client or "") or "an unknown address")
        raise Unauthorized("this is not the server's token", REMEDY)

    def session_ends_unix_ns(self, id_: str) -> int | None:
        """When the session ends; None where there is none, or it has ended."""
        ends = self._ends.get(self._hmac(id_))
        return ends if ends is not None and ends > time.time_ns() else None

    def sign_in(self, token: str, client: str | None) -> tuple[str, int]:
        """A new session's id, and when it ends. Raises as `check_token` does, and Conflict where nobody need sign
        in."""
        if not self.required:
            raise Conflict("this server asks for no token: nobody need sign in")
        self.check_token(token.strip().encode(errors="surrogatepass"), client)
        id_, ends = secrets.token_urlsafe(32), time.time_ns() + SESSION_S * 10**9
        key, over = self._hmac(id_), self._make_room()

        def write(session: Session) -> None:
            session.execute(delete(SignIn).where(SignIn.id_hmac.in_(over)))
            session.add(SignIn(id_hmac=key, ends_unix_ns=ends))

        self._database.writer.run(write)
        self._ends[key] = ends
        return id_, ends

    def sign_out(self, id_: str) -> None:
        """End a session for good, also for whoever copied its cookie. Without effect where there is none."""
        key = self._hmac(id_)
        if key not in self._ends:
            return
        self._database.writer.run(
            lambda session: session.execute(delete(SignIn).where(SignIn.id_hmac == key))
        )
        self._ends.pop(key, None)

    def _make_room(self) -> list[str]:
        """Forget sessions that have ended, and the oldest where there are too many; which ones."""
        now = time.time_ns()
        with self._lock:
            oldest_first = sorted(self._ends.items(), key=lambda item: item[1])
            many = max(0, len(oldest_first) - MOST_SESSIONS + 1)
            over = [key for place, (key, ends) in enumerate(oldest_first) if place < many or ends <= now]
            for key in over:
                self._ends.pop(key, None)
        return over

    def _hmac(self, id_: str) -> str:
        return hmac.new(self._key, id_.encode(), hashlib.sha256).hexdigest()


def _digest(token: bytes) -> bytes:
    """What is compared and kept of a token: of one length whatever was sent."""
    return hashlib.sha256(token).digest()
