"""`trainyard demo`: the server, the demo's jobs one at a time, a table of results, and the page all along."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from backend.cli.demo_jobs import RACE, RUNS, Run
from backend.cli.demo_report import clock, ending, table
from backend.cli.errors import FAILURE, reported
from backend.cli.serve import read_settings, warn, where
from backend.cli.text import progress
from backend.client import ENDED, Client

POLL_S = 1.0
LINE_EVERY_S = 4.0
"""Between two progress lines of a job whose state does not change."""
CANCEL_LIMIT_S = 20.0
INTERRUPTED = 130

Once = Annotated[bool, typer.Option("--once", help="End when the jobs have ended, with their status.")]


def demo(once: Once = False) -> None:
    """Train the demo jobs one after another, and watch them race in a browser."""
    from backend.cli.background import BackgroundServer  # noqa: PLC0415 - the server's packages, only here

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    interrupt, succeeded = Interrupt(), None
    # One device per worker of the widest run: jobs wait for each other, and nothing disturbs a measurement.
    wanted = read_settings(cpu_devices=max(run.workers for run in RUNS))
    try:
        with (
            reported(),
            BackgroundServer(wanted) as server,
            Client(server.settings.address, token=wanted.own_token) as client,
        ):
            if server.settings.port != wanted.port:
                typer.echo(f"Port {wanted.port} is taken; this server took {server.settings.port}.")
            typer.echo(where(server.settings))
            warn(server.settings)
            typer.echo(f"Its data are in {wanted.data_dir.resolve()}")
            succeeded = Demo(client, interrupt).run()
            if not once:
                typer.echo(
                    "The server goes on until Ctrl-C. It offers the devices that these jobs used;\n"
                    "`trainyard serve` (make serve) offers all of them."
                )
                while server.running:
                    server.wait(POLL_S)
    except KeyboardInterrupt:
        typer.echo("\nStopped.")
        if succeeded is None:
            raise typer.Exit(INTERRUPTED) from None
    if not succeeded:
        raise typer.Exit(FAILURE)


class Demo:
    """The runs, submitted and followed as any client would."""

    def __init__(self, client: Client, interrupt: Interrupt) -> None:
        self._client = client
        self._interrupt = interrupt
        self._start = time.monotonic()
        self._ids: dict[Run, str] = {}

    def run(self) -> bool:
        """Submit all, follow them, print the table; whether every job succeeded. Interrupted, cancels all."""
        try:
            self._submit()
            race = ",".join(id_ for run, id_ in self._ids.items() if run.template == RACE)
            page = f"{self._client.url}/race?jobs={race}"
            typer.echo(f"\n  Watch it live:  {page}\n\n{len(RUNS)} jobs, one at a time:\n")
            for run in RUNS:
                self._follow(run)
        except BaseException:
            self._cancel()
            raise
        results = [(self._client.job(id_), self._client.summary(id_)) for id_ in self._ids.values()]
        typer.echo(f"\n{table(results)}\n\n  The race:  {page}\n  All jobs:  {self._client.url}/jobs\n")
        return all(job.state == "succeeded" for job, _ in results)

    def _submit(self) -> None:
        typer.echo("Submitting the jobs; each model is described once, which takes some seconds.")
        submitted: dict[tuple[str, str | None], str] = {}
        for run in RUNS:
            baseline = submitted[run.template, run.baseline] if run.baseline else None
            with self._interrupt.held():  # a job whose id we never learned could not be cancelled
                job = self._client.submit(run.specification(baseline))
                self._ids[run] = submitted[run.template, run.strategy] = job.id

    def _follow(self, run: Run) -> None:
        """Print how the run stands until it has ended."""
        shown, next_line = "", 0.0
        while (job := self._client.job(self._ids[run])).state not in ENDED:
            now = time.monotonic()
            if job.state != shown or (job.state == "running" and now >= next_line):
                self._line(run, progress(job) if job.state == "running" else job.state)
                shown, next_line = job.state, now + LINE_EVERY_S
            time.sleep(POLL_S)
        self._line(run, ending(job))

    def _cancel(self) -> None:
        """Cancel what has not ended and wait for it, so that no process outlives an interrupted demo."""
        going = [id_ for id_ in self._ids.values() if self._client.job(id_).state not in ENDED]
        for id_ in going:
            self._client.cancel(id_)
        deadline = time.monotonic() + CANCEL_LIMIT_S
        for id_ in going:
            self._client.wait(id_, timeout_s=max(0.1, deadline - time.monotonic()))

    def _line(self, run: Run, text: str) -> None:
        width = max(len(each.name) for each in RUNS)
        typer.echo(f"{clock(time.monotonic() - self._start):>5}  {run.name:<{width}}  {text}")


class Interrupt:
    """Ctrl-C and SIGTERM as KeyboardInterrupt, also where a shell's background job would ignore the first."""

    def __init__(self) -> None:
        self._holding = self._pending = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._come)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, an interrupt waits until the block is left."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._pending:
            raise KeyboardInterrupt

    def _come(self, _number: int, _frame: FrameType | None) -> None:
        if self._holding:
            self._pending = True
        else:
            raise KeyboardInterrupt
