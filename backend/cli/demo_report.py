"""What the demo prints: progress lines and the table of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.plan.units_of_measure import format_bytes, format_rate

HEAD = (
    "job", "workers", "rate", "accuracy", "samples/s", "iteration", "exposed", "speed-up", "wire/step", "result",
)  # fmt: skip
LEFT = {0, len(HEAD) - 1}
"""Columns of words; the others hold numbers."""


def clock(seconds: float) -> str:
    """`2:05` of 125."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def progress(job: dict[str, Any]) -> str:
    """How a running job stands, e.g. `step 40 of 120  loss 0.412  812 samples/s`."""
    parts = []
    if job["step"] is not None:
        parts.append(f"step {job['step'] + 1}" + (f" of {job['steps']}" if job["steps"] else ""))
    if job["loss"] is not None:
        parts.append(f"loss {job['loss']:.3f}")
    if job["samples_per_s"] is not None:
        parts.append(f"{job['samples_per_s']:.0f} samples/s")
    if job["test_accuracy"] is not None:
        parts.append(f"test accuracy {job['test_accuracy']:.1%}")
    return "  ".join(parts) or "first step"


def row(job: dict[str, Any], summary: dict[str, Any]) -> tuple[str, ...]:
    """One job's line of the table, from the API's job and its summary."""

    def text(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    speed_up = summary["speed_up"] or {}
    if speed_up and not speed_up["comparable"]:
        gain = "not comparable"
    else:
        gain = "-" if speed_up.get("value") is None else f"{speed_up['value']:.2f}x"
    wire = summary["wire_bytes_per_step"]
    return (
        job["name"],
        str(job["workers"]),
        "-" if job["rate_bps"] is None else f"{format_rate(job['rate_bps'])} *",
        text(summary["test_accuracy"], ".1%"),
        text(summary["samples_per_s"], ".0f"),
        "-" if summary["iteration_ms"] is None else f"{summary['iteration_ms']:.1f} ms",
        "-" if summary["exposed_ms"] is None else f"{summary['exposed_ms']:.1f} ms",
        gain,
        "-" if wire is None else format_bytes(wire),
        job["state"] if job["state"] == "succeeded" else f"{job['state']}: {job['message'] or job['reason']}",
    )


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows under their heads, and what the words mean."""
    widths = [max(len(line[column]) for line in (HEAD, *rows)) for column in range(len(HEAD))]

    def line(cells: tuple[str, ...]) -> str:
        padded = (
            cell.ljust(width) if column in LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    notes = [
        "iteration, exposed: medians of the slowest worker, warm-up left out; exposed: waiting for parameters.",
        "speed-up: samples/s over the baseline's (single; for vgg-small parameter-server), same global batch.",
        "wire/step: payload that crosses the network in a step, over all links.",
        "* software-limited: kept by the program, not by the network.",
    ]
    return "\n".join([line(HEAD), "  ".join("-" * width for width in widths), *map(line, rows), "", *notes])
