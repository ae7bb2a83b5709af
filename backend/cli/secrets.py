"""`trainyard secrets`: what jobs need and nobody is to read."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from backend.cli.errors import reported, say
from backend.cli.jobs import AsJson, Url
from backend.cli.people import GROUP
from backend.cli.text import columns, out, out_json
from backend.client import Client
from engine.plan.secrets import check_name

secrets = typer.Typer(name="secrets", help="What your jobs need and nobody is to read.", **GROUP)
Name = Annotated[str, typer.Argument(help="The environment variable that jobs find it in, e.g. HF_TOKEN.")]


@secrets.command("list")
def list_secrets(url: Url = None, as_json: AsJson = False) -> None:
    """List the names of your secrets. What they are, nothing says."""
    with reported(), Client(url) as client:
        found = client.secrets()
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    rows = [(each.name, f"{each.changed_at:%Y-%m-%d %H:%M}") for each in found]
    out(columns(("name", "kept (UTC)"), rows) if rows else "no secrets")


@secrets.command("set")
def keep_secret(name: Name, url: Url = None) -> None:
    """Keep a secret: it is asked for without showing it, or read from a pipe. Arguments are in every user's process
    list, so it is none."""
    with reported(), Client(url) as client:
        check_name(name)
        value = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
        client.keep_secret(name, value)
    say(f"{name} is kept. A job of yours gets it that has: secrets: [{name}]")


@secrets.command("remove")
def remove_secret(name: Name, url: Url = None) -> None:
    """Forget a secret. Jobs that run keep what they have."""
    with reported(), Client(url) as client:
        client.remove_secret(name)
