"""Commands about plans and what they are made of."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from backend.cli import ids
from backend.cli.changes import change
from backend.cli.errors import reported
from backend.cli.jobs import AsJson, File, Id, Settings, Url, read_spec
from backend.cli.progress import PLANNING, working
from backend.cli.text import out, out_json
from backend.client import Client
from backend.schemas.memory import MemoryView
from backend.schemas.paying import PayingView
from backend.schemas.plans import PlanView
from engine.errors import UserError
from engine.plan.characters import visible_json


def plan(
    file: File,
    url: Url = None,
    as_json: AsJson = False,
    set_: Settings = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="What a worker would hold in memory, by layer, instead.")
    ] = False,
    codecs: Annotated[
        bool,
        typer.Option(
            "--codecs", help="From which rate of the links down each codec would save time, instead."
        ),
    ] = False,
) -> None:
    """Print the plan that the job in FILE would get, without submitting it."""
    with reported(), Client(url) as client, working(PLANNING):
        if memory and codecs:
            raise UserError("--codecs", True, "--memory asks for another table", "Give one of the two")
        asked = change(read_spec(file), set_)
        ask = client.memory if memory else client.codecs if codecs else client.preview
        view: PlanView | MemoryView | PayingView = ask(asked)
    if as_json:
        out_json(view)
    else:
        out(view.memory.text if isinstance(view, MemoryView) else view.text)


def largest_batch(
    file: File,
    memory: Annotated[str, typer.Option("--memory", help="Of a worker's device, as 16GiB or 600MB.")],
    url: Url = None,
    as_json: AsJson = False,
    set_: Settings = None,
) -> None:
    """Print the largest batch of the job in FILE that fits a given memory, before and after optimization of it."""
    with reported(), Client(url) as client, working(PLANNING):
        found = client.largest_batch(change(read_spec(file), set_), memory)
    if as_json:
        out_json(found)
    else:
        out(found.largest.text)


def spec(
    job_id: Id,
    url: Url = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Every field; otherwise only those that were set.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON in place of YAML.")] = False,
) -> None:
    """Print what a job was asked to be, as a file that can be submitted again."""
    with reported(), Client(url) as client:
        form: Literal["json", "yaml"] = "json" if as_json else "yaml"
        text = client.specification(ids.job_id(client, job_id), form=form, whole=whole)
    typer.echo(visible_json(text) if as_json else text, nl=False)


def strategies(url: Url = None) -> None:
    """List the strategies: what each does, and when it loses."""
    with reported(), Client(url) as client:
        for entry in client.strategies():
            typer.echo(f"{entry.name} ({entry.proof})\n  {entry.summary}\n  Loses when {entry.loses_when}")
            typer.echo(f"  Source: {entry.source}")
            for name, option in entry.options_schema.get("properties", {}).items():
                typer.echo(
                    f"  option {name} = {json.dumps(option.get('default'))}: {option.get('description', '')}"
                )
            typer.echo()


def schema() -> None:
    """Print the JSON schema of a job's specification."""
    from backend.services import catalogue  # noqa: PLC0415 - the server's packages, only here

    typer.echo(json.dumps(catalogue.job_schema(), indent=2))
