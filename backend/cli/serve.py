"""`trainyard serve`: the server in the foreground."""

from __future__ import annotations

import ipaddress
import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from backend.cli.errors import reported
from backend.settings import Settings
from engine.errors import UserError

Host = Annotated[str | None, typer.Option(help="Address to listen on; TRAINYARD_HOST. Default: 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Port, 0 for any free one; TRAINYARD_PORT. Default: 8000.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Database and jobs; TRAINYARD_DATA_DIR. Default: ~/.local/share/trainyard."),
]
CpuDevices = Annotated[
    int | None,
    typer.Option(help="Workers that fit on the CPU at once; TRAINYARD_CPU_DEVICES. Default: its cores."),
]


def serve(
    host: Host = None, port: Port = None, data_dir: DataDir = None, cpu_devices: CpuDevices = None
) -> None:
    """Run the server until Ctrl-C. Jobs that are running go on, and are found again at the next start."""
    # Everything below needs the server's packages, which other commands do without.
    from backend.app import create_app  # noqa: PLC0415
    from backend.server import Server, listen  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("alembic", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with reported():
        settings = read_settings(host=host, port=port, data_dir=data_dir, cpu_devices=cpu_devices)
        _warn_if_open(settings)
        # The processes that it starts keep their caches there.
        os.environ["TRAINYARD_DATA_DIR"] = str(settings.data_dir.absolute())
        with listen(settings.host, settings.port) as sock:
            settings = settings.model_copy(update={"port": sock.getsockname()[1]})
            server = Server(
                create_app(settings), ready=lambda: typer.echo(f"Trainyard is at {settings.address}")
            )
            server.run([sock])


def read_settings(**given: Any) -> Settings:
    """Settings from the environment, with what the command line gives. Raises UserError for values out of
    range."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(
            field, first["input"], first["msg"].lower(), f"Correct TRAINYARD_{field.upper()}"
        ) from None


def _warn_if_open(settings: Settings) -> None:
    try:
        loopback = settings.host == "localhost" or ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        typer.echo(
            f"warning: listening on {settings.host}: whoever reaches it can run programs on this machine,"
            " since jobs are programs. Keep it behind a firewall, or use 127.0.0.1",
            err=True,
        )
