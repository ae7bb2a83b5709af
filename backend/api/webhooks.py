"""Addresses that are told when jobs and races end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from backend.api.deps import Asks, Services, note, problems, shown_once
from backend.api.fields import of_items
from backend.schemas.people import AuditDetails
from backend.schemas.webhooks import (
    DeliveryPage,
    DeliveryQuery,
    DeliveryView,
    NewWebhook,
    WebhookRequest,
    WebhookView,
)

router = APIRouter(prefix="/webhooks", tags=["webhooks"])
WebhookId = Annotated[int, Path(ge=1, le=2**62)]


def _of(hook: WebhookView) -> AuditDetails:
    return AuditDetails(user=hook.owner, name=hook.name, host=hook.host)


@router.get("")
def list_webhooks(services: Services, caller: Asks) -> list[WebhookView]:
    """One's own webhooks, of an admin everybody's."""
    return services.webhooks.all(caller)


@router.post("", status_code=201, responses=problems(409, 415, 422))
def add_webhook(
    services: Services, caller: Asks, asked: WebhookRequest, request: Request, response: Response
) -> NewWebhook:
    """Tell an address when jobs or races end. The answer holds the key by which its messages are signed, and nothing
    else ever will. Messages are those of Standard Webhooks: a JSON body with `event`, `timestamp`, `text` and `job` or
    `race`, and the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`."""
    made = services.webhooks.add(caller, asked)
    note(request, _of(made))
    shown_once(response, f"/api/v1/webhooks/{made.id}")
    return made


@router.delete("/{webhook_id}", status_code=204, responses=problems(404, 415, 422))
def remove_webhook(services: Services, caller: Asks, webhook_id: WebhookId, request: Request) -> None:
    """Tell an address no more. What it has not taken yet is not sent again, and its log goes."""
    note(request, _of(services.webhooks.remove(caller, webhook_id)))


@router.post("/{webhook_id}/test", status_code=202, responses=problems(404, 409, 415, 422))
def try_webhook(services: Services, caller: Asks, webhook_id: WebhookId) -> DeliveryView:
    """Send a webhook a message that says nothing. How that went is in its log a moment later."""
    return services.webhooks.try_out(caller, webhook_id)


@router.get("/{webhook_id}/deliveries", response_model=DeliveryPage, responses=problems(404, 422))
def list_deliveries(
    services: Services, caller: Asks, webhook_id: WebhookId, asked: Annotated[DeliveryQuery, Query()]
) -> DeliveryPage | JSONResponse:
    """What a webhook was told in the last 30 days, newest first. With `fields`, items hold only these."""
    return of_items(services.webhooks.deliveries(caller, webhook_id, asked), asked.fields)
