"""`trainyard maintenance`: devices are taken out of use, and given back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from backend.cli.errors import reported
from backend.cli.jobs import AsJson, Url
from backend.cli.people import GROUP
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.schemas.maintenance import MaintenanceView

maintenance = typer.Typer(
    name="maintenance", help="Devices that are taken out of use. Admins begin and end it.", **GROUP
)


@maintenance.command("list")
def list_maintenance(url: Url = None, as_json: AsJson = False) -> None:
    """List devices that are out of use, or will be, and who is still on them."""
    with reported(), Client(url) as client:
        found = client.maintenance()
    if as_json:
        for each in found:
            out_json(each, lines=False)
        return
    head = ("number", "devices", "of", "begins (UTC)", "ends (UTC)", "who runs there", "still there", "note")
    out(columns(head, map(_row, found)) if found else "no device is in maintenance")


@maintenance.command("begin")
def begin_maintenance(
    devices: Annotated[
        list[str] | None, typer.Argument(help="Names, e.g. cuda:0. Without any: all of the server.")
    ] = None,
    at: Annotated[datetime | None, typer.Option(help="From when on (UTC). Else at once.")] = None,
    until: Annotated[datetime | None, typer.Option(help="It ends by itself then (UTC).")] = None,
    node: Annotated[
        str | None, typer.Option(help="A node as a whole, by its name or number: see `trainyard nodes`.")
    ] = None,
    make_room: Annotated[
        bool, typer.Option("--make-room", help="Jobs with checkpoints end with one when it begins.")
    ] = False,
    note: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    url: Url = None,
) -> None:
    """Take devices out of use, and print the number by which it ends. No job starts on them that would not have ended
    by then."""
    with reported(), Client(url) as client:
        made = client.begin_maintenance(
            devices or None, node=node, begins_at=at, ends_at=until, makes_room=make_room, note=note
        )
    out(str(made.id))
    for holder in made.holders:
        out(f"{holder.job_name!r} ({holder.job_id}) is still there", err=True)


@maintenance.command("end")
def end_maintenance(
    number: Annotated[int, typer.Argument(min=1, help="As `trainyard maintenance list` has it.")],
    url: Url = None,
) -> None:
    """Give the devices back."""
    with reported(), Client(url) as client:
        client.end_maintenance(number)


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _row(one: MaintenanceView) -> tuple[str, ...]:
    return (
        str(one.id),
        "all" if one.devices is None else " ".join(one.devices),
        one.server if one.node is None else one.node,
        _utc(one.begins_at),
        "-" if one.ends_at is None else _utc(one.ends_at),
        "makes room" if one.makes_room else "ends as ever",
        ", ".join(repr(holder.job_name) for holder in one.holders) or "-",
        one.note or "",
    )
