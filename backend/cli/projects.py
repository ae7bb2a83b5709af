"""`trainyard projects`: who shares the devices, and how."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.cli.errors import reported
from backend.cli.jobs import AsJson, Url
from backend.cli.people import GROUP
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.schemas.projects import ProjectView

KINDS = ("cpu", "cuda", "rehearsal")
projects = typer.Typer(
    name="projects", help="Who shares the devices, and how. Admins make and change them.", **GROUP
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The project's name, as jobs have it.")]
Limit = Annotated[int | None, typer.Option(min=0, help="The most that its jobs hold at once. Else no limit.")]


@projects.command("list")
def list_projects(url: Url = None, as_json: AsJson = False) -> None:
    """List projects: what each holds of its quota, its weight, and what it has used."""
    with reported(), Client(url) as client:
        found = client.projects()
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    head = ("name", "weight", *KINDS, "waiting", "used, device hours")
    out(columns(head, map(_row, found)) if found else "there are no projects: every job has its turn by age")


@projects.command("set")
def put_project(
    name: Name,
    weight: Annotated[float, typer.Option(help="Of its share; 2 gets twice as much as 1.")] = 1.0,
    cpu: Limit = None,
    cuda: Limit = None,
    rehearsal: Limit = None,
    url: Url = None,
) -> None:
    """Make a project, or change it: what is left out has its default again."""
    with reported(), Client(url) as client:
        client.put_project(name, weight=weight, cpu=cpu, cuda=cuda, rehearsal=rehearsal)


@projects.command("remove")
def remove_project(name: Name, url: Url = None) -> None:
    """Remove a project of which no job waits or runs."""
    with reported(), Client(url) as client:
        client.remove_project(name)


def _row(one: ProjectView) -> tuple[str, ...]:
    limits = {"cpu": one.cpu, "cuda": one.cuda, "rehearsal": one.rehearsal}
    held = (_of(one.held.get(kind, 0), limits[kind]) for kind in KINDS)
    used = ", ".join(f"{kind} {seconds / 3600:.1f}" for kind, seconds in sorted(one.used_s.items()))
    return (one.name, f"{one.weight:g}", *held, str(one.waiting), used or "-")


def _of(held: int, limit: int | None) -> str:
    """`3 of 8`."""
    return str(held) if limit is None else f"{held} of {limit}"
