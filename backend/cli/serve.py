"""`trainyard serve`: the server in the foreground."""

from __future__ import annotations

import gc
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
    typer.Option(
        help="Workers that fit on the CPU at once; TRAINYARD_CPU_DEVICES. Default: its cores, two at least."
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        help="What starts jobs' processes: local, or ray for a Ray cluster; TRAINYARD_EXECUTOR. Default: local."
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="HOST:PORT of the Ray cluster's head; TRAINYARD_RAY_ADDRESS. Default: the cluster that this machine is in."
    ),
]
People = Annotated[
    bool,
    typer.Option(
        "--people",
        help="Ask people who they are on loopback, too; TRAINYARD_PEOPLE.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Answer everybody who reaches the address, also from other machines, without a token; TRAINYARD_INSECURE.",
    ),
]


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    cpu_devices: CpuDevices = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    people: People = False,
    insecure: Insecure = False,
) -> None:
    """Run the server until Ctrl-C. Jobs that are running go on, and are found again at the next start. Where other
    machines reach it, everybody shows a token: the first start prints the admin's, unless TRAINYARD_TOKEN (or
    TRAINYARD_TOKEN_FILE) says what it is; `trainyard users` and `trainyard tokens` let others in."""
    gc.disable()  # a sixth of the start; `Server` lets it begin when requests are answered
    # Everything below needs the server's packages, which other commands do without.
    from backend.app import create_app  # noqa: PLC0415
    from backend.server import Server, listen  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("alembic", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    with reported():
        settings = read_settings(
            host=host, port=port, data_dir=data_dir, cpu_devices=cpu_devices, executor=executor,
            ray_address=ray_address, people=people or None, insecure=insecure or None,
        )  # fmt: skip
        warn(settings)
        # The processes that it starts keep their caches there.
        os.environ["TRAINYARD_DATA_DIR"] = str(settings.data_dir.absolute())
        with listen(settings.host, settings.port, for_others=settings.for_others) as sock:
            settings = settings.model_copy(update={"port": sock.getsockname()[1]})
            served = create_app(settings)

            def ready() -> None:
                typer.echo(where(settings, served.state.context.access.fresh))

            Server(served, settings, ready=ready).run([sock])


def read_settings(**given: Any) -> Settings:
    """Settings from the environment, with what the command line gives. Raises UserError for values out of
    range."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), UserError):
            raise cause from None
        field = ".".join(map(str, first["loc"]))
        raise UserError(
            field, first["input"], first["msg"].lower(), f"Correct TRAINYARD_{field.upper()}"
        ) from None


def where(settings: Settings, token: str | None = None) -> str:
    """What a server says of itself when it is ready. `token`: the first admin's, which is shown this once."""
    said = f"Trainyard is at {settings.address}" + (" and asks for a token" if settings.asks else "")
    if token is None:
        return said
    return (
        f"{said}\nThe first admin's token, shown only now: {token}\n"
        "Keep it: sign in with it on the page, or export TRAINYARD_TOKEN for commands. Others get their own by\n"
        "`trainyard users add NAME` and `trainyard tokens new laptop --user NAME`"
    )


def warn(settings: Settings) -> None:
    """Say what leaves the server open: that nobody is asked for a token, or that others can read it."""
    file = settings.token_file
    if file is not None and file.stat().st_mode & 0o077:
        typer.echo(
            f"warning: {file}: other users of this machine can read the token. chmod 600 {file}", err=True
        )
    if settings.insecure:
        typer.echo(
            f"warning: --insecure: nobody is asked for a token at {settings.host}, so whoever reaches it"
            " can run programs on this machine: jobs are programs. Keep it behind a firewall, or set TRAINYARD_TOKEN",
            err=True,
        )
