"""Sending what webhooks are told: signed, within a deadline, and again where a receiver did not take it.

Messages and signatures are those of Standard Webhooks (standardwebhooks.com), whose libraries check them. A message is
delivered when a receiver answers with 2xx; any other answer, a redirect too, is a failure, and it is sent again after
each of AGAIN_S, and then given up. A receiver that is away holds up nobody else: a try counts for all of its messages
that are due. One that refuses a message gets the next ones all the same. A server that is killed between sending and
noting so sends twice, with the same `webhook-id`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, and_, case, func, literal, or_, select, update
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Delivery, Webhook
from backend.scheduler.outbox import KIND
from backend.services.errors import Conflict
from backend.services.times import moment
from backend.services.vault import Vault
from backend.services.watch import Watch
from backend.sockets.outward import Network, NotSentError, post
from backend.version import program_version

AGAIN_S = (5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200)
"""How long after each failure a message is sent again; a day in all."""
DEADLINE_S = 10.0
AT_ONCE = 4
"""To so many webhooks messages go at once."""
PORTION = 100
"""Messages of a round, at most."""
PREFIX = "whsec_"
"""So begins a key, in the form that libraries of Standard Webhooks take."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Due:
    id: int
    hook: int
    sealed: str
    at_unix_ns: int
    body: dict[str, Any]


def sealed_of(webhook: int) -> str:
    """What the vault calls an address."""
    return f"webhook {webhook}"


def signed(key: str, id_: str, now_s: int, body: bytes) -> dict[str, str]:
    """The headers of a message. `key`: PREFIX and base64."""
    content = f"{id_}.{now_s}.".encode() + body
    digest = hmac.digest(base64.b64decode(key.removeprefix(PREFIX)), content, hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "User-Agent": f"Trainyard/{program_version()}",
        "webhook-id": id_,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


class Delivering:
    """A thread that sends."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        allowed: Collection[Network],
        turn: Callable[[], bool] = lambda: True,
    ) -> None:
        """`allowed`: networks that are reached though they are not public. `turn`: whether this server is the one that
        sends."""
        self._database = database
        self._vault = vault
        self._allowed = allowed
        self.watch = Watch(database, "webhooks", self.look, kinds=(KIND,), turn=turn)

    def look(self) -> float | None:
        """Send what is due, in rounds, each with one message of every webhook, so that one that has many, or is slow,
        holds up the others for one message only; in how many seconds there is more."""
        while not self.watch.closed.is_set() and (due := self._due()):
            with ThreadPoolExecutor(min(AT_ONCE, len(due)), "webhook") as pool:
                list(pool.map(self._send_one, due))
        with self._database.read() as session:
            following = session.scalar(select(func.min(Delivery.next_unix_ns)))
        return None if following is None else max(0.0, (following - time.time_ns()) / 1e9)

    def _due(self) -> list[_Due]:
        """The oldest message that is due of each webhook; those that have waited longest come first."""
        due = Delivery.next_unix_ns <= time.time_ns()
        oldest = select(func.min(Delivery.id)).where(due).group_by(Delivery.webhook_id)
        query = (
            select(Webhook.sealed, Delivery)
            .join(Delivery, Delivery.webhook_id == Webhook.id)
            .where(Delivery.id.in_(oldest))
            .order_by(Delivery.next_unix_ns, Delivery.id)
            .limit(PORTION)
        )
        with self._database.read() as session:
            return [
                _Due(id=row.id, hook=row.webhook_id, sealed=sealed, at_unix_ns=row.at_unix_ns, body=row.body)
                for sealed, row in session.execute(query)
            ]

    def _send_one(self, one: _Due) -> None:
        if self.watch.closed.is_set():
            return
        try:
            status, trouble = self._send(one.hook, one.sealed, one)
        except (
            Exception
        ) as error:  # whatever it is, it is noted: else the same message would be sent without end
            logger.exception("message %d of webhook %d was not sent", one.id, one.hook)
            status, trouble = None, f"the server failed to send it ({type(error).__name__})"
        self._database.writer.run(partial(_note, one=one, status=status, trouble=trouble))

    def _send(self, hook: int, sealed: str, one: _Due) -> tuple[int | None, str | None]:
        """The status, and why it was not delivered."""
        body = json.dumps({"timestamp": moment(one.at_unix_ns).isoformat(), **one.body}, ensure_ascii=False)
        content = body.encode(errors="replace")
        try:
            held = json.loads(self._vault.open(sealed_of(hook), sealed))
            headers = signed(held["key"], f"msg_{one.id}", int(time.time()), content)
            status = post(held["url"], headers, content, allowed=self._allowed, deadline_s=DEADLINE_S)
        except (NotSentError, Conflict) as error:
            return None, str(error)
        if 200 <= status < 300:
            return status, None
        what = "a redirect, which is not followed" if 300 <= status < 400 else "no success"
        return status, f"the receiver answered with {status}: {what}"


def _note(session: Session, *, one: _Due, status: int | None, trouble: str | None) -> None:
    """What became of it. Where the receiver is away (no status), the try counts for all that is due for this webhook:
    one after another they would else be tried for as many days as there are messages."""
    now, row = time.time_ns(), Delivery
    following = case(
        {tries: literal(now + wait_s * 10**9, BigInteger) for tries, wait_s in enumerate(AGAIN_S)},
        value=row.tries,
        else_=None,
    )
    which = row.id == one.id
    if trouble is not None and status is None:
        which = or_(which, and_(row.webhook_id == one.hook, row.next_unix_ns <= now))
    session.execute(
        update(row)
        .where(which)
        .values(
            tries=row.tries + 1,
            tried_unix_ns=now,
            next_unix_ns=None if trouble is None else following,
            status=status,
            trouble=trouble,
        )
        .execution_options(synchronize_session=False)
    )
