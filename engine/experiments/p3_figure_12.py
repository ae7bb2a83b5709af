"""P3's figure 12: slice size against throughput, ResNet-50 and VGG-19, four machines.

Run: `python -m engine.experiments.p3_figure_12` (4 to 10 minutes each; `--quick` 1 to 3).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from engine.benchmarks.harness.jobs import Measured
from engine.benchmarks.harness.machine import cpu_use
from engine.benchmarks.harness.report import Report
from engine.experiments.p3_cluster import (
    P3,
    SLICE,
    WORKLOADS,
    Workload,
    bound_samples_per_s,
    expected_s,
    job,
    label,
    panels,
    race,
    setting,
    slices,
    spread,
)

RATES = {"resnet50": 4.0, "vgg19": 5.0}
"""Gbit/s. The paper names none; at these the port's time is about the compute's, so that slices matter most."""
SIZES = {
    "resnet50": (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
    "vgg19": (20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
}
"""True elements of a slice; divided like everything else. VGG-19 in slices of 5,000 would be 170,000 messages a step,
minutes for two cores: `--sizes 5000` asks for it."""

ROUNDS = 2
"""Medians with their range, no pairs."""
PAPER = """\
In the paper throughput rises as slices shrink, peaks at 50,000 and falls again, as each message has its cost
(section 5.6). Messages of all hosts are handled by this one machine's cores, so the fall begins at larger slices where
CPU is short (rows marked *). Scaled slices carry fewer bytes for the same work per message, which exaggerates it."""


def main() -> None:
    """Measure both models, one result each."""
    options = parser().parse_args()
    for model in [options.model] if options.model else RATES:
        panel(WORKLOADS[model], options)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    found = panels(__doc__, RATES)
    found.add_argument("--sizes", type=int, nargs="+", help="elements of a slice")
    return found


def panel(workload: Workload, options: argparse.Namespace) -> None:
    """Measure one model and write its result."""
    rate, sizes = RATES[workload.model], options.sizes or SIZES[workload.model]
    sizes = sizes[-5::2] if options.quick else sizes
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    with Report(
        f"p3_figure_12-{workload.model}",
        f"P3, figure 12: slice size against throughput, {workload.title} at {rate:g} Gbit/s",
        "How large should a slice be?",
        options,
    ) as report:
        minutes = sum(expected_s(workload, rate, slice_size=size) for size in sizes) * rounds / 60
        report.plan([f"slices of {size:,}: {rounds} rounds" for size in sizes], minutes)
        report.method(setting(workload))
        report.method("Interleaved rounds (order reversed every other round); medians with their range.")
        jobs = {f"{size:,}": job(workload, P3, rate, options={"slice_size": size}) for size in sizes}
        measured = race(report, jobs, rounds, gbit=rate, label=label(workload))
        columns = ("slice (elements)", "slices", "samples/s", "share of the bound", "CPU")
        report.table("Throughput, samples/s over all workers", columns, rows(workload, rate, sizes, measured))
        report.note(PAPER)


def rows(
    workload: Workload, rate: float, sizes: Sequence[int], measured: Mapping[str, Sequence[Measured]]
) -> list[list[Any]]:
    """One row per size."""
    found = []
    for size in sizes:
        runs = measured[f"{size:,}"]
        speeds = [one.samples_per_s for one in runs]
        found.append(
            [
                f"{size:,}" + (" (the paper's peak)" if size == SLICE else ""),
                slices(workload, size),
                spread(speeds),
                statistics.median(speeds) / bound_samples_per_s(workload, rate),
                cpu_use(one.cpu_share for one in runs),
            ]
        )
    return found


if __name__ == "__main__":
    main()
