"""Sending what webhooks are told: signed, within a deadline, and again where a receiver did not take it.

Messages and signatures are those of Standard Webhooks (standardwebhooks.com), whose libraries check them. A message is
delivered when a receiver answers with 2xx; any other answer, a redirect too, is a failure, and it is sent again after
each of AGAIN_S, and then given up. A receiver that is away holds up nobody else: its other messages wait with the one
that failed. A server that is killed between sending and noting so sends twice, with the same `webhook-id`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import func, select, update
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
"""To so many webhooks messages go at once, to each one after another."""
PORTION = 100
"""Messages that are looked at together."""
PREFIX = "whsec_"
"""So begins a key, in the form that libraries of Standard Webhooks take."""


@dataclass(frozen=True, kw_only=True)
class _Due:
    id: int
    at_unix_ns: int
    body: dict[str, Any]
    tries: int


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
        """Send what is due; in how many seconds there is more."""
        now = time.time_ns()
        with self._database.read() as session:
            rows = session.execute(
                select(Webhook.id, Webhook.sealed, Delivery)
                .join(Delivery, Delivery.webhook_id == Webhook.id)
                .where(Delivery.next_unix_ns <= now)
                .order_by(Delivery.id)
                .limit(PORTION)
            ).all()
            due: dict[tuple[int, str], list[_Due]] = {}
            for hook, sealed, row in rows:
                one = _Due(id=row.id, at_unix_ns=row.at_unix_ns, body=row.body, tries=row.tries)
                due.setdefault((hook, sealed), []).append(one)
        if due:
            with ThreadPoolExecutor(min(AT_ONCE, len(due)), "webhook") as pool:
                list(pool.map(self._send_all, due.items()))
        with self._database.read() as session:
            following = session.scalar(select(func.min(Delivery.next_unix_ns)))
        return None if following is None else max(0.0, (following - time.time_ns()) / 1e9)

    def _send_all(self, found: tuple[tuple[int, str], list[_Due]]) -> None:
        (hook, sealed), due = found
        for one in due:
            if self.watch.closed.is_set():
                return
            status, trouble = self._send(hook, sealed, one)
            self._database.writer.run(partial(_note, hook=hook, one=one, status=status, trouble=trouble))
            if trouble is not None:
                return

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


def _note(session: Session, *, hook: int, one: _Due, status: int | None, trouble: str | None) -> None:
    """What became of it. Where it failed, what else is due for this webhook waits with it."""
    now, following = time.time_ns(), None
    if trouble is not None and one.tries < len(AGAIN_S):
        following = now + AGAIN_S[one.tries] * 10**9
    row = Delivery
    session.execute(
        update(row)
        .where(row.id == one.id)
        .values(
            tries=one.tries + 1, tried_unix_ns=now, next_unix_ns=following, status=status, trouble=trouble
        )
    )
    if following is not None:
        session.execute(
            update(row).where(row.webhook_id == hook, row.next_unix_ns <= now).values(next_unix_ns=following)
        )
