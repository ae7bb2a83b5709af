"""`trainyard export`: a job's model, or what was measured of a job or a race, for other programs."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from backend.cli import ids
from backend.cli.errors import reported, say
from backend.cli.jobs import Attempt, Id, Url
from backend.cli.progress import working
from backend.cli.written import written
from backend.client import Client
from engine.errors import UserError

Form = Literal["model", "parquet", "tensorboard", "mlflow"]
Step = Annotated[int | None, typer.Option(min=0, help="Of --as parquet: the first and the last step.")]
EXPERIMENT = "trainyard"


def export(
    job_id: Id,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="The folder, which is made; of --as parquet also a file named *.zip."
        ),
    ] = None,
    url: Url = None,
    as_: Annotated[
        Form,
        typer.Option("--as", help="model: model.safetensors. The others are what was measured."),
    ] = "model",
    race: Annotated[bool, typer.Option("--race", help="The id is a race's: all its jobs.")] = False,
    attempt: Attempt = None,
    step: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of the model's checkpoint. Default: how the job has ended, else its newest one."
        ),
    ] = None,
    optimizer: Annotated[
        bool, typer.Option("--optimizer", help="Also optimizer.pt, its state as torch.load reads it.")
    ] = False,
    tables: Annotated[
        str | None, typer.Option(help="Of --as parquet: which, with commas. Default: all.")
    ] = None,
    step_from: Step = None,
    step_to: Step = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Of --as tensorboard: go on until the job has ended.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(help="Of --as mlflow: the tracking server's or store's address.")
    ] = None,
    experiment: Annotated[str, typer.Option(help="Of --as mlflow: the experiment's name.")] = EXPERIMENT,
) -> None:
    """Write a job's model with the names of its state_dict, or what was measured of it, or of a race, as Parquet files,
    as a run of TensorBoard, or into MLflow."""
    with reported(), Client(url, on_away=say) as client:
        _check(as_, race, follow, to)
        of = ids.race_id(client, job_id) if race else ids.job_id(client, job_id)
        if as_ == "mlflow":
            _mlflow(client, of, race, to or "", experiment)
            return
        if out is None:
            raise UserError(
                "--out", None, "what is exported is written there", "Name a folder, which is made"
            )
        if as_ == "model":
            _model(client, of, out, step, optimizer)
        elif as_ == "parquet":
            asked = {"tables": tables, "step_from": step_from, "step_to": step_to}
            _parquet(client, of, race, out, asked if race else {**asked, "attempt": attempt})
        else:
            _tensorboard(client, of, race, out, attempt, follow)


def _check(as_: Form, race: bool, follow: bool, to: str | None) -> None:
    """Raises UserError for what does not go together."""
    if race and as_ == "model":
        raise UserError("--race", True, "a race has no model of its own", "Export that of one of its jobs")
    if follow and (as_ != "tensorboard" or race):
        remedy = "Leave it out, or give --as tensorboard and a job"
        raise UserError("--follow", True, "only a job's run of TensorBoard is written live", remedy)
    if (to is None) == (as_ == "mlflow"):
        rule = "--as mlflow needs it" if to is None else "only --as mlflow needs it"
        raise UserError("--to", to, rule, "Examples: http://127.0.0.1:5000, sqlite:///mlflow.db")


def _model(client: Client, job_id: str, out: Path, step: int | None, optimizer: bool) -> None:
    kept = client.checkpoints(job_id)
    if optimizer and not kept.items:
        rule = "the job has no checkpoint, and its optimizer's state is in nothing else"
        raise UserError("--optimizer", True, rule, "Leave it out")
    if step is None and kept.items and (optimizer or kept.end is None):
        step = kept.items[0].step  # both files are of one step, whatever is written meanwhile
    _make(out)
    with written(out / "model.safetensors") as (file, tell):
        of = client.export(job_id, file, step=step, on_progress=tell)
    when = "after" if step is not None else "as the job has ended, after"
    typer.echo(f"{out / 'model.safetensors'}: the model {when} step {of}")
    if optimizer:
        with written(out / "optimizer.pt") as (file, tell):
            client.export(job_id, file, step=step, what="optimizer", on_progress=tell)
        typer.echo(f"{out / 'optimizer.pt'}: its optimizer's state after step {step}")


def _parquet(client: Client, of: str, race: bool, out: Path, asked: dict[str, str | int | None]) -> None:
    fetch = client.race_tables if race else client.tables
    packed = out.suffix.lower() == ".zip"
    if not packed:
        _make(out)
    archive = out if packed else out / "tables.zip"
    with written(archive) as (file, tell):
        fetch(of, file, on_progress=tell, **asked)
    if packed:
        typer.echo(f"{out}: Parquet files")
        return
    with zipfile.ZipFile(archive) as files:
        names = files.namelist()
        files.extractall(out)
    archive.unlink()
    typer.echo(f"{out}: {', '.join(names)}")


def _tensorboard(client: Client, of: str, race: bool, out: Path, attempt: int | None, follow: bool) -> None:
    from backend.exports import tensorboard  # noqa: PLC0415 - an extra's

    jobs = list(client.jobs(race=of)) if race else [client.job(of)]
    points = 0
    with working(f"writing {out}") as tell:
        for job in jobs:
            folder = out / f"{job.name.replace('/', '-')} {job.id[-8:]}" if race else out
            points += tensorboard.write(
                client,
                job.id,
                folder,
                attempt=attempt,
                follow=follow,
                on_progress=lambda count: tell(f"writing {out}  {count} points"),
            )
    typer.echo(f"{out}: {points} points. `tensorboard --logdir {out}` shows them")


def _mlflow(client: Client, of: str, race: bool, to: str, experiment: str) -> None:
    from backend.exports import mlflow  # noqa: PLC0415 - an extra's

    with working(f"writing to {to}") as tell:
        store = mlflow.Store(to, experiment)
        if race:
            run, new = store.add_race(client, of, tell)
        else:
            run, added = store.add_job(client, of, on_progress=tell)
    if race:
        typer.echo(f"{to}: run {run} of the race, and {new} new {'job' if new == 1 else 'jobs'} in it")
    else:
        typer.echo(f"{to}: run {run}" + ("" if added else ", which was there already"))


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("--out", str(out), f"cannot be made: {error}", "Name another folder") from None
