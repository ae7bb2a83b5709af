"""Addresses that are told what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from backend.schemas.base import Schema
from backend.schemas.jobs import Page
from backend.schemas.lists import ListQuery

Told = Literal["job.ended", "job.failed", "race.ended"]


class WebhookRequest(Schema):
    """An address that is to be told."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    """What it is for: `our chat`."""
    url: str = Field(min_length=1, max_length=2_000)
    """Where messages go: `https://...`, or `http://...`. It has to lead to a public address, or to one of a network
    that the server allows."""
    events: list[Told] = Field(min_length=1, max_length=3)
    """What it is told. `job.ended`: a job has ended, however that was. `job.failed`: a job has failed. `race.ended`: a
    race has its verdict."""
    everybodys: bool = False
    """Of everybody's jobs and races; else of one's own."""


class WebhookView(Schema):
    """An address that is told, but for what may be a secret in it."""

    id: int
    name: str
    owner: str | None
    """Whose it is. Null: made where nobody was asked."""
    host: str
    """Scheme, name and port of the address."""
    events: list[str]
    everybodys: bool
    """Of everybody's jobs and races; else of its owner's."""
    created_at: datetime
    waiting: int
    """How many messages have not arrived yet, and are sent again."""
    last: DeliveryView | None
    """The newest message; null: there is none."""


class NewWebhook(WebhookView):
    """An address that is told from now on."""

    key: str
    """What its messages are signed with, as Standard Webhooks has it. Shown this once."""


class DeliveryView(Schema):
    """A message to a webhook."""

    id: int
    """Receivers find it as `webhook-id: msg_<id>`."""
    event: str
    at: datetime
    """When it happened."""
    state: Literal["waiting", "delivered", "failed"]
    """`waiting`: it is sent, or sent again, at `next_at`. `failed`: it was given up."""
    tries: int
    tried_at: datetime | None
    """When it was sent last; null: it was not sent yet."""
    next_at: datetime | None
    """When it is sent again; null: it is not."""
    status: int | None
    """What the receiver answered last; null: nothing."""
    trouble: str | None
    """Why it did not arrive the last time; null: it did, or was not sent yet."""
    body: dict[str, Any]
    """What it says."""


class DeliveryPage(Page):
    """A page of a webhook's messages, newest first."""

    items: list[DeliveryView]


class DeliveryQuery(ListQuery):
    """Which messages."""


WebhookView.model_rebuild()
NewWebhook.model_rebuild()
