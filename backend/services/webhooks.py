"""Addresses that people want to be told: made, listed, tried, removed; and what they were told."""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from backend.access.addresses import parsed
from backend.access.rights import Caller
from backend.db import Database
from backend.db.models import Delivery, Webhook
from backend.db.models.webhooks import HOST_LENGTH
from backend.scheduler import outbox
from backend.schemas import webhooks as schema
from backend.services import cursor as cursors
from backend.services.delivering import PREFIX, sealed_of
from backend.services.errors import Conflict, NotFound
from backend.services.known_tokens import check_stands
from backend.services.times import moment, moment_or_none
from backend.services.vault import Vault
from backend.sockets.outward import Network, permitted
from engine.errors import UserError
from engine.plan.serde import legible

MOST = 20
"""Of one user."""
MOST_TESTS = 100
"""Of one webhook, that wait."""
KEY_BYTES = 32
HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
EXAMPLE = "Example: https://chat.example.org/hooks/42"


class Webhooks:
    """Those of one database."""

    def __init__(self, database: Database, vault: Vault, allowed: Collection[Network]) -> None:
        self._database = database
        self._vault = vault
        self._allowed = allowed

    def all(self, caller: Caller) -> list[schema.WebhookView]:
        """The caller's own, of an admin everybody's, by their age."""
        query = select(Webhook).order_by(Webhook.id)
        if caller.role != "admin":
            query = query.where(Webhook.owner == caller.name)
        with self._database.read() as session:
            return [_view(session, row) for row in session.scalars(query)]

    def add(self, caller: Caller, asked: schema.WebhookRequest) -> schema.NewWebhook:
        """Tell an address from now on. Raises UserError for what is no address, or one that is not to be reached,
        Conflict for one too many, and Unauthorized or Forbidden where the caller may not any more by then."""
        host = self._host(asked.url)
        key = PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
        content = json.dumps({"url": asked.url, "key": key})

        def write(session: Session) -> schema.WebhookView:
            check_stands(session, caller)
            count = select(func.count()).select_from(Webhook).where(Webhook.owner == caller.name)
            if (session.scalar(count) or 0) >= MOST:
                raise Conflict(
                    f"{caller.name or 'this server'} has {MOST} webhooks, which is the most. Remove one"
                )
            row = Webhook(
                owner=caller.name,
                name=asked.name,
                host=host,
                sealed="",
                events=sorted(set(asked.events)),
                everybodys=asked.everybodys,
                created_unix_ns=time.time_ns(),
            )
            session.add(row)
            session.flush()  # what is sealed says its number
            row.sealed = self._vault.seal(sealed_of(row.id), content)
            return _view(session, row)

        made = self._database.writer.run(write)
        return schema.NewWebhook(**dict(made), key=key)

    def remove(self, caller: Caller, id_: int) -> schema.WebhookView:
        """Tell it no more; what it was. Raises NotFound for one that is not the caller's, unless they are an admin."""

        def write(session: Session) -> schema.WebhookView:
            row = _find(session, caller, id_)
            gone = _view(session, row)
            session.execute(delete(Delivery).where(Delivery.webhook_id == row.id))
            session.delete(row)
            return gone

        return self._database.writer.run(write)

    def try_out(self, caller: Caller, id_: int) -> schema.DeliveryView:
        """Send it a message that says nothing; how that went is in its log a moment later. Raises as `remove` does,
        and Conflict where too many of them wait."""

        def write(session: Session) -> schema.DeliveryView:
            row = _find(session, caller, id_)
            waiting = select(func.count()).where(
                Delivery.webhook_id == row.id,
                Delivery.event == outbox.TEST,
                Delivery.next_unix_ns.is_not(None),
            )
            if (session.scalar(waiting) or 0) >= MOST_TESTS:
                raise Conflict(
                    f"{MOST_TESTS} tests of webhook {id_} wait, which is the most. Wait until its receiver has taken "
                    "them, or remove the webhook"
                )
            outbox.test(session, row)
            session.flush()
            newest = _newest(session, row.id)
            assert newest is not None
            return _delivery(newest)

        return self._database.writer.run(write)

    def deliveries(self, caller: Caller, id_: int, asked: schema.DeliveryQuery) -> schema.DeliveryPage:
        """What it was told, newest first. Raises as `remove` does, and UserError for a cursor that is none."""
        with self._database.read() as session:
            row = _find(session, caller, id_)
            query = select(Delivery).where(Delivery.webhook_id == row.id)
            rows, following = cursors.page(
                session, query, Delivery.id, limit=asked.limit, cursor=asked.cursor, read=cursors.number
            )
            return schema.DeliveryPage(items=[_delivery(each) for each in rows], next_cursor=following)

    def _host(self, url: str) -> str:
        """Scheme, name and port. Raises UserError. An address in figures is looked at now; a name when it is used."""
        found = _split(url)
        name = found.hostname or ""
        if parsed(name) is not None and not permitted(name, self._allowed):
            rule = "is no public address: a message would reach what only this machine or its network reaches"
            remedy = (
                "Name another, or let whoever runs the server allow its network (TRAINYARD_WEBHOOK_NETWORKS)"
            )
            raise UserError("url", name, rule, remedy)
        host = f"{found.scheme}://{found.netloc}".lower()
        if len(host) > HOST_LENGTH:
            raise UserError("url", f"{len(host)} characters", "is too long a name", EXAMPLE)
        return host


def _split(url: str) -> SplitResult:
    """Raises UserError for what no program asks in one way only, and for a password, which would be in the log."""
    shown = legible(url[:80])
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError:
        raise UserError("url", shown, "is no address", EXAMPLE) from None
    if found.scheme not in ("http", "https"):
        raise UserError("url", shown, "begins neither with https:// nor with http://", EXAMPLE)
    if "@" in found.netloc:
        rule = "has a name or a password in it"
        raise UserError("url", found.netloc.rpartition("@")[2], rule, "Leave it out: messages are signed")
    host = found.netloc.rpartition(":")[0] if port is not None else found.netloc
    if not HOST.fullmatch(host):
        raise UserError("url", shown, "has no host name of letters, figures, dots and hyphens", EXAMPLE)
    if not url.isascii() or not url.isprintable() or " " in url:
        rule = "has characters that stand in no address"
        raise UserError("url", shown, rule, "Write them as %20 and the like, names as xn--...")
    return found


def _find(session: Session, caller: Caller, id_: int) -> Webhook:
    row = session.get(Webhook, id_)
    if row is None or (caller.role != "admin" and row.owner != caller.name):
        raise NotFound(f"no such webhook: {id_}. GET /api/v1/webhooks lists them")
    return row


def _newest(session: Session, webhook: int) -> Delivery | None:
    query = select(Delivery).where(Delivery.webhook_id == webhook)
    return session.scalars(query.order_by(Delivery.id.desc()).limit(1)).first()


def _view(session: Session, row: Webhook) -> schema.WebhookView:
    waiting = select(func.count()).where(Delivery.webhook_id == row.id, Delivery.next_unix_ns.is_not(None))
    newest = _newest(session, row.id)
    return schema.WebhookView(
        id=row.id,
        name=row.name,
        owner=row.owner,
        host=row.host,
        events=row.events,
        everybodys=row.everybodys,
        created_at=moment(row.created_unix_ns),
        waiting=session.scalar(waiting) or 0,
        last=None if newest is None else _delivery(newest),
    )


def _delivery(row: Delivery) -> schema.DeliveryView:
    arrived = row.tries > 0 and row.trouble is None
    return schema.DeliveryView(
        id=row.id,
        event=row.event,
        at=moment(row.at_unix_ns),
        state="delivered" if arrived else "failed" if row.next_unix_ns is None else "waiting",
        tries=row.tries,
        tried_at=moment_or_none(row.tried_unix_ns),
        next_at=moment_or_none(row.next_unix_ns),
        status=row.status,
        trouble=row.trouble,
        body=row.body,
    )
