"""`trainyard compare`: jobs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from backend.called import apart
from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import Url
from backend.cli.text import columns, of_worker, out, processors, rate, share
from backend.client import Client
from backend.lifecycle import said
from backend.rounding import (
    INTERVAL_WORDS,
    PROCESSORS_UNKNOWN,
    SPEED_UP,
    SPEED_WORDS,
    STEP_TIME,
    THROUGHPUT,
    number,
)
from backend.schemas.telemetry import SpeedUp, Summary
from backend.speed_ups import sentences
from engine.plan.units_of_measure import format_bytes


def compare(
    baseline: Annotated[str, typer.Argument(help="Id of the job to compare with.")],
    others: Annotated[list[str], typer.Argument(help="Ids of one or more other jobs.")],
    url: Url = None,
) -> None:
    """Compare jobs: time per step, waiting, throughput, accuracy, and the speed-up over the first one."""
    with reported(), Client(url) as client:
        jobs = [client.job(ids.job_id(client, text)) for text in (baseline, *others)]
        figures = [
            client.summary(job.id, baseline=None if i == 0 else jobs[0].id) for i, job in enumerate(jobs)
        ]
    names = apart([job.name for job in jobs], [job.id for job in jobs])
    head = ("", *names)
    faster = [None, *(summary.speed_up for summary in figures[1:])]
    rows = [
        ("strategy", *(job.planned_by for job in jobs)),
        ("workers", *(str(job.workers) for job in jobs)),
        *(
            [("compute", *(job.rehearsed or "measured" for job in jobs))]
            if any(j.rehearsed for j in jobs)
            else ()
        ),
        *([("slowed", *(job.slowed or "-" for job in jobs))] if any(j.slowed for j in jobs) else ()),
        ("network", *(rate(job) for job in jobs)),
        ("state", *(said(job.state) for job in jobs)),
        ("iteration", *(number(s.iteration_ms, STEP_TIME) for s in figures)),
        ("computing", *(of_worker(number(s.compute_ms, STEP_TIME), s.compute_worker) for s in figures)),
        ("exposed", *(of_worker(number(s.exposed_ms, STEP_TIME), s.exposed_worker) for s in figures)),
        ("input", *(number(s.input_ms, STEP_TIME) for s in figures)),
        ("processors", *(processors(s.processors) for s in figures)),
        ("throughput", *(number(s.samples_per_s, f"{THROUGHPUT} samples/s") for s in figures)),
        (
            "on the wire",
            *(_wire(s) for s in figures),
        ),
        ("test accuracy", *(share(s.test_accuracy) for s in figures)),
        ("to the target", *(number(s.time_to_target_s, "{:.1f} s") for s in figures)),
        (
            "speed-up",
            *("1" if i == 0 else number(f.value if f else None, SPEED_UP) for i, f in enumerate(faster)),
        ),
        ("95 %", *(_interval(f) for f in faster)),
        ("convergence speed-up", *_sooner(figures)),
    ]
    out(columns(head, rows))
    if any(summary.samples_per_s for summary in figures):
        out(f"{SPEED_WORDS}.")
    if any(found and found.low is not None for found in faster):
        out(f"{INTERVAL_WORDS}.")
    if any(summary.iteration_ms and summary.processors is None for summary in figures):
        out(f"{PROCESSORS_UNKNOWN}.")
    for sentence in sentences(names, faster[1:]):
        out(sentence)


def _wire(summary: Summary) -> str:
    """Bytes of a step: as the plan declares them, else as they were counted, which is said."""
    declared, counted = summary.wire_bytes_per_step, summary.counted_bytes_per_step
    if declared is not None:
        return f"{format_bytes(declared)}/step"
    return "-" if counted is None else f"{format_bytes(counted)}/step (counted)"


def _interval(found: SpeedUp | None) -> str:
    return "-" if found is None or found.low is None else f"{found.low:.2f} to {found.high:.2f}"


def _sooner(figures: Sequence[Summary]) -> list[str]:
    """How many times as soon as the first job each one reached the target accuracy."""
    first, *others = figures
    return [
        "-" if first.time_to_target_s is None else "1",
        *(number(summary.convergence_speed_up, SPEED_UP) for summary in others),
    ]
