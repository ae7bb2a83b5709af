"""`trainyard webhooks`: addresses that are told when jobs and races end."""

from __future__ import annotations

import sys
from typing import Annotated, get_args

import typer

from backend.cli.errors import reported, say
from backend.cli.jobs import AsJson, Url
from backend.cli.people import GROUP
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.schemas.webhooks import DeliveryView, Told, WebhookView
from engine.errors import UnknownNameError

TOLD: tuple[Told, ...] = get_args(Told)
webhooks = typer.Typer(name="webhooks", help="Addresses that are told when jobs and races end.", **GROUP)
Number = Annotated[int, typer.Argument(min=1, help="As `trainyard webhooks list` has it.")]


@webhooks.command("list")
def list_webhooks(url: Url = None, as_json: AsJson = False) -> None:
    """List your webhooks, of an admin everybody's: what each is told of, and whether messages arrive."""
    with reported(), Client(url) as client:
        found = client.webhooks()
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    head = ("number", "user", "name", "address", "told of", "waiting", "last message")
    out(columns(head, map(_row, found)) if found else "no webhooks")


@webhooks.command("add")
def add_webhook(
    name: Annotated[str, typer.Argument(help="What it is for: our chat.")],
    address: Annotated[
        str,
        typer.Argument(
            help="Where messages go, e.g. https://chat.example.org/hooks/42. `-` reads it from a pipe: arguments are in"
            " every user's process list, and an address often holds a secret."
        ),
    ],
    told: Annotated[
        list[str] | None,
        typer.Option("--of", help=f"What it is told of: {', '.join(TOLD)}; again for more. Else all ends."),
    ] = None,
    everybodys: Annotated[
        bool, typer.Option("--everybodys", help="Of everybody's jobs and races; else of yours.")
    ] = False,
    url: Url = None,
) -> None:
    """Tell an address from now on, and print the key that its messages are signed with. Nobody can say it again."""
    with reported(), Client(url) as client:
        events = [_told(each) for each in told or ("job.ended", "race.ended")]
        where = sys.stdin.read().strip() if address == "-" else address
        made = client.add_webhook(name, where, events, everybodys=everybodys)
    typer.echo(made.key)
    say(
        f"webhook {made.id} is told at {made.host}. To see whether that works: trainyard webhooks test {made.id}"
    )


@webhooks.command("test")
def try_webhook(number: Number, url: Url = None) -> None:
    """Send a message that says nothing. How that went is in `trainyard webhooks deliveries` a moment later."""
    with reported(), Client(url) as client:
        sent = client.try_webhook(number)
    say(f"message {sent.id} is sent. How that went: trainyard webhooks deliveries {number}")


@webhooks.command("deliveries")
def list_deliveries(
    number: Number,
    limit: Annotated[int, typer.Option(min=1, max=200, help="At most so many.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what a webhook was told in the last 30 days, newest first, and what its receiver answered."""
    with reported(), Client(url) as client:
        found = client.deliveries(number, limit=limit).items
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    head = ("number", "when (UTC)", "event", "state", "tries", "answer", "trouble")
    out(columns(head, map(_delivery, found)) if found else "it was told nothing yet")


@webhooks.command("remove")
def remove_webhook(number: Number, url: Url = None) -> None:
    """Tell a webhook no more. What it has not taken yet is not sent again."""
    with reported(), Client(url) as client:
        client.remove_webhook(number)


def _told(text: str) -> Told:
    for known in TOLD:
        if text == known:
            return known
    raise UnknownNameError("of", text, "event", TOLD)


def _row(one: WebhookView) -> tuple[str, ...]:
    of = f"{', '.join(one.events)}{' of everybody' if one.everybodys else ''}"
    last = "-" if one.last is None else one.last.state
    return (str(one.id), one.owner or "-", one.name, one.host, of, str(one.waiting), last)


def _delivery(one: DeliveryView) -> tuple[str, ...]:
    answer = "-" if one.status is None else str(one.status)
    when = f"{one.at:%Y-%m-%d %H:%M:%S}"
    return (str(one.id), when, one.event, one.state, str(one.tries), answer, one.trouble or "")
