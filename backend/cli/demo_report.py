"""What the demo prints: progress lines and the table of results."""

from __future__ import annotations

from collections.abc import Sequence

from backend.cli.text import columns, progress, share
from backend.lifecycle import said
from backend.rounding import SPEED_UP, STEP_TIME, THROUGHPUT, number
from backend.schemas.jobs import Job
from backend.schemas.telemetry import Summary
from engine.plan.units_of_measure import format_bytes, format_rate

HEAD = (
    "job", "workers", "rate", "accuracy", "samples/s", "iteration", "exposed", "speed-up", "wire/step",
    "result",
)  # fmt: skip
NOTES = """
iteration, exposed: medians of the slowest worker, warm-up left out; exposed: waiting for parameters.
samples/s: the sum over the workers, of each its mean samples per step over its own median iteration.
speed-up: samples/s over the baseline's at the same global batch; the baseline is the row marked 1.
wire/step: payload that crosses the network in a step, over all links.
*: software-limited, kept by the program and not by the network."""


def clock(seconds: float) -> str:
    """`2:05` of 125."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def ending(job: Job) -> str:
    """How a job ended, and why where it did not succeed."""
    if job.state != "succeeded":
        return f"{said(job.state)}: {job.message or job.reason}"
    spent = (job.ended_at - job.started_at).total_seconds() if job.ended_at and job.started_at else None
    return f"succeeded in {number(spent, '{:.0f} s')}  {progress(job)}"


def table(results: Sequence[tuple[Job, Summary]]) -> str:
    """The jobs with their figures, and what the words mean."""
    baselines = {job.baseline_id for job, _ in results}
    return columns(HEAD, [_row(job, summary, job.id in baselines) for job, summary in results]) + "\n" + NOTES


def _row(job: Job, summary: Summary, baseline: bool) -> tuple[str, ...]:
    compared = summary.speed_up
    if compared is None:
        gain = "1" if baseline else "-"
    else:
        gain = number(compared.value, SPEED_UP) if compared.comparable else "not comparable"
    wire = summary.wire_bytes_per_step
    return (
        job.name,
        str(job.workers),
        "-" if job.rate_bps is None else f"{format_rate(job.rate_bps)} *",
        share(summary.test_accuracy),
        number(summary.samples_per_s, THROUGHPUT),
        number(summary.iteration_ms, STEP_TIME),
        number(summary.exposed_ms, STEP_TIME),
        gain,
        "-" if wire is None else format_bytes(wire),
        said(job.state),
    )
