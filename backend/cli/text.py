"""Plain text for terminals and pipes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from backend.schemas.jobs import Job
from engine.plan.units_of_measure import format_rate


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under their heads, each column as wide as its widest cell."""
    table = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def number(value: float | None, pattern: str = "{:.4g}") -> str:
    """A number, or `-` where there is none."""
    return "-" if value is None else pattern.format(value)


def share(value: float | None) -> str:
    """0.97 as `97.0 %`."""
    return number(None if value is None else 100 * value, "{:.1f} %")


def rate(bps: int | None, hosts: int | None) -> str:
    """A job's rate, and who keeps it: the links of its lab, or our program, which is always marked as such."""
    limit = "not limited" if bps is None else format_rate(bps)
    if hosts is not None:
        return f"{limit} ({hosts} {'host' if hosts == 1 else 'hosts'})"
    return limit if bps is None else f"{limit} (software-limited)"


def progress(job: Job) -> str:
    """How a running job stands, e.g. `step 40 of 120  loss 0.412  812 samples/s`."""
    parts = []
    if job.step is not None:
        parts.append(f"step {job.step}" + (f" of {job.steps}" if job.steps else ""))
    if job.loss is not None:
        parts.append(f"loss {job.loss:.3f}")
    if job.samples_per_s is not None:
        parts.append(f"{job.samples_per_s:.0f} samples/s")
    if job.test_accuracy is not None:
        parts.append(f"test accuracy {share(job.test_accuracy)}")
    return "  ".join(parts) or "first step"


def age(moment: datetime) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
