"""`trainyard tag` and `trainyard note`: what people say of jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import Id, Url
from backend.cli.text import out
from backend.client import Client


def tag(
    job_id: Id,
    tags: Annotated[list[str] | None, typer.Argument(metavar="[TAG]...", help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", help="A tag to take away; may be given several times.")
    ] = None,
    url: Url = None,
) -> None:
    """Give a job tags, take some away, and print those that it has."""
    with reported(), Client(url) as client:
        job_id = ids.job_id(client, job_id)
        held = client.job(job_id).tags
        wanted = [name for name in dict.fromkeys([*held, *(tags or [])]) if name not in (remove or [])]
        if wanted != held:
            held = client.label(job_id, tags=wanted).tags
    out(", ".join(held) or "no tags")


def note(
    job_id: Id,
    text: Annotated[str | None, typer.Argument(help="What to write. Left out: print the note.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the note away.")] = False,
    url: Url = None,
) -> None:
    """Write a note about a job, or print it."""
    with reported(), Client(url) as client:
        job_id = ids.job_id(client, job_id)
        if remove:
            client.note(job_id, None)
            return
        job = client.job(job_id) if text is None else client.note(job_id, text)
    out(job.note or "no note")
