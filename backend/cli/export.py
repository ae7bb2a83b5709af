"""`trainyard export`: a job's model as a file that other programs load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import Id, Url
from backend.cli.written import written
from backend.client import Client
from engine.errors import UserError


def export(
    job_id: Id,
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for model.safetensors; it is made.")],
    url: Url = None,
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Of a checkpoint. Default: how the job has ended, else its newest one."),
    ] = None,
    optimizer: Annotated[
        bool, typer.Option("--optimizer", help="Also optimizer.pt, its state as torch.load reads it.")
    ] = False,
) -> None:
    """Write a job's model with the names of its state_dict, and say of which step it is."""
    with reported(), Client(url) as client:
        job_id = ids.job_id(client, job_id)
        kept = client.checkpoints(job_id)
        if optimizer and not kept.items:
            rule = "the job has no checkpoint, and its optimizer's state is in nothing else"
            raise UserError("--optimizer", True, rule, "Leave it out")
        if step is None and kept.items and (optimizer or kept.end is None):
            step = kept.items[0].step  # both files are of one step, whatever is written meanwhile
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError("--out", str(out), f"cannot be made: {error}", "Name another folder") from None
        with written(out / "model.safetensors") as (file, tell):
            of = client.export(job_id, file, step=step, on_progress=tell)
        when = "after" if step is not None else "as the job has ended, after"
        typer.echo(f"{out / 'model.safetensors'}: the model {when} step {of}")
        if optimizer:
            with written(out / "optimizer.pt") as (file, tell):
                client.export(job_id, file, step=step, what="optimizer", on_progress=tell)
            typer.echo(f"{out / 'optimizer.pt'}: its optimizer's state after step {step}")
