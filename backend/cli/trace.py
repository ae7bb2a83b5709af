"""`trainyard trace`: a job's timeline as a file for ui.perfetto.dev."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import Id, Url
from backend.cli.progress import working
from backend.client import Client
from engine.errors import UserError
from engine.plan.units_of_measure import format_bytes

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
        part = out.with_name(f"{out.name}.part")  # a file that is there is whole
        try:
            with part.open("wb") as file, working(f"writing {out}") as tell:
                client.trace(
                    job_id,
                    file,
                    on_progress=lambda written: tell(f"writing {out}  {format_bytes(written)}"),
                    step_from=step_from,
                    step_to=step_to,
                )
            part.replace(out)
        except OSError as error:
            if isinstance(error, ConnectionError | TimeoutError):
                raise
            remedy = "Name a file in a folder of yours"
            raise UserError("--out", str(out), f"cannot be written: {error}", remedy) from None
        finally:
            part.unlink(missing_ok=True)
    typer.echo(f"Written to {out}. Open it at https://ui.perfetto.dev", err=True)
