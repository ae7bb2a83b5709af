"""`trainyard`: the server, and everything that can be asked of it from a terminal."""

from __future__ import annotations

import json

import typer

app = typer.Typer(
    name="trainyard",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def trainyard() -> None:
    """A control plane for distributed training."""


@app.command("openapi")
def openapi_command() -> None:
    """Print the API's OpenAPI document; the page's client is generated from it."""
    from backend.app import openapi  # noqa: PLC0415 - the server's packages, which other commands do without

    typer.echo(json.dumps(openapi(), indent=2))


if __name__ == "__main__":
    app()
