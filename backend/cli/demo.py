"""`trainyard demo`: the server, a race of strategies, jobs that train, their results, and the page all along."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from backend.cli.demo_jobs import RUNS, Run
from backend.cli.demo_report import clock, ending, table
from backend.cli.errors import FAILURE, reported
from backend.cli.races import how_far, report
from backend.cli.serve import read_settings, warn, where
from backend.cli.text import progress
from backend.client import ENDED, Client
from backend.lifecycle import said
from backend.races.demo import race
from backend.schemas.races import RaceView
from engine.lab.permission import permitted

POLL_S = 1.0
LINE_EVERY_S = 4.0
"""Between two progress lines of a job whose state does not change."""
CANCEL_LIMIT_S = 20.0
INTERRUPTED = 130

Once = Annotated[bool, typer.Option("--once", help="End when the jobs have ended, with their status.")]


def demo(once: Once = False) -> None:
    """Race strategies on a rehearsed cluster, then train on digits; watch both in a browser."""
    from backend.cli.background import BackgroundServer  # noqa: PLC0415 - the server's packages, only here

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    interrupt, succeeded = Interrupt(), None
    # One device per worker of the widest run: jobs wait for each other, and nothing disturbs a measurement.
    wanted = read_settings(cpu_devices=max(run.workers for run in RUNS))
    try:
        with (
            reported(),
            BackgroundServer(wanted) as server,
            Client(server.settings.address, token=server.token) as client,
        ):
            if server.settings.port != wanted.port:
                typer.echo(f"Port {wanted.port} is taken; this server took {server.settings.port}.")
            typer.echo(where(server.settings, server.fresh))
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
    """The race and the jobs, submitted and followed as any client would."""

    def __init__(self, client: Client, interrupt: Interrupt) -> None:
        self._client = client
        self._interrupt = interrupt
        self._start = time.monotonic()
        self._race_id: str | None = None
        self._ids: dict[Run, str] = {}

    def run(self) -> bool:
        """Race, train, print what came of both; whether everybody succeeded. Interrupted, cancels what goes on."""
        try:
            raced = self._race()
            trained = self._train()
        except BaseException:
            self._cancel()
            raise
        typer.echo(f"\n  The race:  {self._page()}\n  All jobs:  {self._client.url}/jobs\n")
        return raced and trained

    def _race(self) -> bool:
        why_not = permitted()
        typer.echo(
            "Which strategy is fastest? A rehearsal: computation is waited for, all bytes really travel."
        )
        if why_not:
            typer.echo(f"The program paces its own sending, and ddp cannot take part, because {why_not}.")
        with self._interrupt.held():  # a race whose id we never learned could not be cancelled
            self._race_id = self._client.start_race(race(lab=why_not is None)).id
        typer.echo(f"\n  Watch it live:  {self._page()}\n")
        shown, next_line = "", 0.0

        def look(seen: RaceView) -> None:
            nonlocal shown, next_line
            text, now = how_far(seen), time.monotonic()
            if text != shown and now >= next_line:
                self._line("race", text)
                shown, next_line = text, now + LINE_EVERY_S

        ended = self._client.wait_for_race(self._race_id, poll_s=POLL_S, on_look=look)
        typer.echo(f"\n{report(ended)}\n")
        return ended.state == "finished" and not any(
            standing.out for ranking in ended.rankings for standing in ranking.standings
        )

    def _train(self) -> bool:
        typer.echo(f"A residual network learns handwritten digits: {len(RUNS)} jobs, one at a time.\n")
        submitted: dict[tuple[str, str | None], str] = {}
        for run in RUNS:
            baseline = submitted[run.template, run.baseline] if run.baseline else None
            with self._interrupt.held():
                job = self._client.submit(run.specification(baseline))
                self._ids[run] = submitted[run.template, run.strategy] = job.id
        for run in RUNS:
            self._follow(run)
        results = [(self._client.job(id_), self._client.summary(id_)) for id_ in self._ids.values()]
        typer.echo(f"\n{table(results)}")
        return all(job.state == "succeeded" for job, _ in results)

    def _follow(self, run: Run) -> None:
        """Print how the run stands until it has ended."""
        shown, next_line = "", 0.0
        while (job := self._client.job(self._ids[run])).state not in ENDED:
            now = time.monotonic()
            if job.state != shown or (job.state == "running" and now >= next_line):
                self._line(run.name, progress(job) if job.state == "running" else said(job.state))
                shown, next_line = job.state, now + LINE_EVERY_S
            time.sleep(POLL_S)
        self._line(run.name, ending(job))

    def _cancel(self) -> None:
        """Cancel what has not ended and wait for it, so that no process outlives an interrupted demo."""
        ids = list(self._ids.values())
        if self._race_id is not None:
            found = self._client.standings(self._race_id)
            ids += [found.running_job] if found.running_job else []
            if found.state == "running":
                self._client.cancel_race(self._race_id)
        deadline = time.monotonic() + CANCEL_LIMIT_S
        for id_ in reversed(ids):  # what is queued first, so that it does not begin meanwhile
            self._client.stop(id_, timeout_s=max(0.1, deadline - time.monotonic()))

    def _page(self) -> str:
        return f"{self._client.url}/races/{self._race_id}"

    def _line(self, name: str, text: str) -> None:
        width = max(len(each.name) for each in RUNS)
        typer.echo(f"{clock(time.monotonic() - self._start):>5}  {name:<{width}}  {text}")


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
