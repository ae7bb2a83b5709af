"""`trainyard token`: a token for a server that other machines reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.access.token import new_token, write
from backend.cli.errors import reported, say

Out = Annotated[
    Path | None, typer.Option(help="A new file that only you can read, for TRAINYARD_TOKEN_FILE.")
]


def token(out: Out = None) -> None:
    """Print a fresh token for a server: export TRAINYARD_TOKEN=$(trainyard token). Nothing else knows it: keep it."""
    if out is None:
        typer.echo(new_token())
        return
    with reported():
        write(new_token(), out)
    say(
        f"{out} holds a fresh token: export TRAINYARD_TOKEN_FILE={out.absolute()}, for the server and for who uses it"
    )
