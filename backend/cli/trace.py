"""`trainyard trace`: a job's timeline as a file for ui.perfetto.dev."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import Id, Url
from backend.cli.written import written
from backend.client import Client

Step = Annotated[int | None, typer.Option(min=0, help="First and last step. Default: the ten newest.")]


def trace(
    job_id: Id,
    url: Url = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to. Default: print it.")] = None,
    step_from: Step = None,
    step_to: Step = None,
) -> None:
    """Write a job's timeline as a trace that ui.perfetto.dev and chrome://tracing open."""
    with reported(), Client(url) as client:
        job_id = ids.job_id(client, job_id)
        if out is None:
            client.trace(job_id, sys.stdout.buffer, step_from=step_from, step_to=step_to)
            return
        with written(out) as (file, tell):
            client.trace(job_id, file, on_progress=tell, step_from=step_from, step_to=step_to)
    typer.echo(f"Written to {out}. Open it at https://ui.perfetto.dev", err=True)
