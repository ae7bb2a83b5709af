"""`trainyard top`: what runs and what waits, as it changes."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from backend.called import apart, called, shorten
from backend.cli.errors import reported, say
from backend.cli.jobs import Url
from backend.cli.text import age, columns, out, share
from backend.client import ENDED, Client
from backend.lifecycle import said
from backend.rounding import STEP_TIME, THROUGHPUT, number
from backend.schemas.jobs import JobSummary
from backend.schemas.telemetry import Summary
from engine.plan.characters import visible

AT_WORK = "placing,starting,running,preempting,stopping_cancelled,stopping_failed,stopping_succeeded"
HEAD = (
    "id",
    "name",
    "strategy",
    "state",
    "step",
    "left",
    "samples/s",
    "iteration",
    "waiting",
    "input",
    "computing",
    "loss",
    "since",
)
CLEAR = "\x1b[H\x1b[2J"
"""To a terminal: go to its top and empty it."""
SHOWN = 40
"""Jobs; more do not fit on a screen."""


def top(
    url: Url = None,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one look and end.")] = False,
) -> None:
    """Show the jobs that run or wait, until Ctrl-C: how far, how fast, and how much of a step is waiting."""
    try:
        with reported(), Client(url, on_away=say) as client:
            while True:
                text = client.patiently(lambda: look(client))
                if once:
                    out(text)
                    return
                typer.echo(f"{CLEAR if sys.stdout.isatty() else ''}{text}")
                time.sleep(interval)
    except KeyboardInterrupt:
        out()


def look(client: Client) -> str:
    """One look at the server as text."""
    health = client.health()
    devices = [device for device in client.devices() if device.kind != "rehearsal"]
    # Those that run first: a long queue must not push them off the screen.
    found = list(client.jobs(state=AT_WORK, limit=SHOWN))
    found += client.jobs(state="queued", limit=SHOWN - len(found)) if len(found) < SHOWN else ()
    found.sort(key=lambda job: (job.state == "queued", job.created_at))
    occupied = sum(device.job_id is not None for device in devices)
    head = (
        f"{client.url}  {health.jobs.running} running, {health.jobs.queued} waiting,"
        f" {occupied} of {len(devices)} devices occupied"
    )
    short = shorten(job.id for job in found)
    rows = [_row(job, short[job.id], client.summary(job.id) if job.step else None) for job in found]
    names = apart([job.name for job in found], [job.id for job in found])
    waiting = [
        f"{name} waits: {job.message}"
        for name, job in zip(names, found, strict=True)
        if job.state == "queued" and job.message
    ]
    table = columns(HEAD, rows) if rows else "Nothing runs."
    return visible("\n".join([head, "", table, "", *waiting]).rstrip())


def _row(job: JobSummary, short: str, summary: Summary | None) -> tuple[str, ...]:
    return (
        short,
        called(job.name, job),
        job.planned_by,
        said(job.state),
        f"{job.step or 0}/{job.steps}" if job.steps else number(job.step, "{}"),
        _left(job),
        number(job.samples_per_s, THROUGHPUT),
        number(job.iteration_ms, STEP_TIME),
        _share_of_step(summary, "exposed_ms"),
        _share_of_step(summary, "input_ms"),
        _share_of_step(summary, "compute_ms"),
        number(job.loss, "{:.3f}"),
        age(job.started_at or job.created_at),
    )


def _share_of_step(summary: Summary | None, field: str) -> str:
    if summary is None or not summary.iteration_ms:
        return "-"
    value = getattr(summary, field)
    return share(None if value is None else value / summary.iteration_ms)


def _left(job: JobSummary) -> str:
    """Time until the last step at the present speed."""
    if job.state in ENDED or job.steps is None or job.iteration_ms is None:
        return "-"
    seconds = round((job.steps - (job.step or 0)) * job.iteration_ms / 1e3)
    minutes, seconds = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
