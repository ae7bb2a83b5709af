"""`trainyard`: the server, and everything that can be asked of it from a terminal.

A command's module is imported when the command runs: the others would cost each of them a third of a second.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from backend.cli.output import told_where_output_fails
from backend.schemas.base import build_when_used

COMMANDS: Mapping[str, str] = {
    "openapi": "main:openapi",
    "serve": "serve:serve",
    "demo": "demo:demo",
    "token": "tokens:token",
    "users": "people:users",
    "tokens": "people:tokens",
    "secrets": "secrets:secrets",
    "webhooks": "webhooks:webhooks",
    "audit": "people:audit",
    "nodes": "nodes:nodes",
    "maintenance": "maintenance:maintenance",
    "projects": "projects:projects",
    "submit": "jobs:submit",
    "list": "jobs:list_jobs",
    "show": "jobs:show",
    "logs": "jobs:logs",
    "clone": "clone:clone",
    "baseline": "jobs:baseline",
    "tag": "labels:tag",
    "note": "labels:note",
    "cancel": "jobs:cancel",
    "preempt": "jobs:preempt",
    "delete": "jobs:delete",
    "record": "jobs:record",
    "top": "top:top",
    "staleness": "staleness:staleness",
    "memory": "memory:memory",
    "trace": "trace:trace",
    "export": "export:export",
    "compare": "compare:compare",
    "race": "races:race",
    "races": "races:races",
    "race-report": "races:race_report",
    "best": "best:best",
    "plan": "plans:plan",
    "largest-batch": "plans:largest_batch",
    "spec": "plans:spec",
    "strategies": "plans:strategies",
    "profile": "profiles:profile",
    "schema": "plans:schema",
}
"""Where each one's function is: the module in this folder, and its name there."""
GUESSED = {"jobs": "list", "ls": "list", "status": "show", "stop": "cancel", "rm": "delete", "run": "submit"}
"""Commands that people look for, and those that they mean."""
SERVERS = {"serve", "demo"}
"""Those that start a server."""
DOCUMENTS = {"openapi", "schema"}
"""Those that print what fields mean, which the server's own packages know."""
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""What a command loads, it keeps: to look through that for garbage again and again takes a tenth of its time."""
LOOK: dict[str, Any] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


class _Loading(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        module, _, function = COMMANDS[name].partition(":")
        found = getattr(import_module(f"backend.cli.{module}"), function)
        if isinstance(found, typer.Typer):  # has commands of its own
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, **LOOK)
        alone.command(name)(found)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """All of them, as Typer wants it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Loading()  # type: ignore[assignment]  # it is only read

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in GUESSED:
            ctx.fail(f"No such command {args[0]!r}. Did you mean `trainyard {GUESSED[args[0]]}`?")
        return super().resolve_command(ctx, args)


app = typer.Typer(name="trainyard", cls=_Commands, no_args_is_help=True, **LOOK)


@app.callback()
def trainyard() -> None:
    """A control plane for distributed training."""


def openapi() -> None:
    """Print the API's OpenAPI document; the page's client is generated from it."""
    from backend.app import openapi as document  # noqa: PLC0415 - the server's packages, only here

    typer.echo(json.dumps(document(), indent=2))


def main() -> None:
    """The program. It loads only what the command needs, so that one that asks a server for something answers soon."""
    if {*sys.argv[1:2]} & SERVERS:
        app()
        return
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    if not {*sys.argv[1:2]} & DOCUMENTS:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]  # httpx's own command, which httpx does without
        build_when_used()
    with told_where_output_fails():
        app()


if __name__ == "__main__":
    main()
