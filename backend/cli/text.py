"""Plain text for terminals and pipes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import typer
from pydantic import BaseModel

from backend.rounding import NOT_MEASURED, THROUGHPUT, number
from backend.schemas.jobs import Job
from backend.schemas.telemetry import Processors
from engine.plan.characters import visible, visible_json
from engine.plan.units_of_measure import format_rate


def out(text: str = "", *, err: bool = False) -> None:
    """Print a line, `visible`; to standard error with `err`."""
    typer.echo(visible(text), err=err)


def out_json(answer: BaseModel, *, lines: bool = True) -> None:
    """Print the API's own answer, so that a terminal is not driven and a program reads what it says; without `lines`
    in one."""
    typer.echo(visible_json(answer.model_dump_json(indent=2 if lines else None)))


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under their heads, each column as wide as its widest cell."""
    table = [[visible(cell).replace("\n", "\\n") for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def of_worker(text: str, worker: int | None) -> str:
    """Whose a figure is, where workers differ."""
    return text if worker is None else f"{text} (worker {worker})"


def share(value: float | None) -> str:
    """0.97 as `97.0 %`."""
    return number(None if value is None else 100 * value, "{:.1f} %")


def processors(found: Processors | None) -> str:
    """`41 % busy, 38 % by this job`, of all processors of the machine."""
    return (
        NOT_MEASURED
        if found is None
        else f"{found.busy:.0%} busy, {found.own:.0%} by this job".replace("%", " %")
    )


def rate(job: Job) -> str:
    """A job's rate, and who keeps it: the links of its lab, or our program, which is always marked as such."""
    bps, hosts = job.rate_bps, job.hosts
    limit = "not limited" if bps is None else format_rate(bps)
    if bps is not None and job.fastest_bps is not None and job.fastest_bps != bps:
        limit += f" to {format_rate(job.fastest_bps)}"
    if hosts is not None:
        return f"{limit} ({hosts} {'host' if hosts == 1 else 'hosts'})"
    return limit if bps is None else f"{limit} (software-limited)"


def progress(job: Job) -> str:
    """How a running job stands, e.g. `step 40 of 120  loss 0.412  812.4 samples/s`."""
    parts = []
    if job.step is not None:
        parts.append(f"step {job.step}" + (f" of {job.steps}" if job.steps else ""))
    if job.loss is not None:
        parts.append(f"loss {job.loss:.3f}")
    if job.samples_per_s is not None:
        parts.append(f"{THROUGHPUT.format(job.samples_per_s)} samples/s")
    if job.test_accuracy is not None:
        parts.append(f"test accuracy {share(job.test_accuracy)}")
    return "  ".join(parts) or "first step"


def age(moment: datetime) -> str:
    """How long ago, in the largest unit that fits."""
    return span((datetime.now(UTC) - moment).total_seconds())


def took(started: datetime | None, ended: datetime | None) -> str:
    """How long a job ran, or has run so far; `-` before it started."""
    return "-" if started is None else span(((ended or datetime.now(UTC)) - started).total_seconds())


def span(length: float) -> str:
    """A time in seconds, in the largest unit that fits."""
    seconds = max(0, int(length))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
