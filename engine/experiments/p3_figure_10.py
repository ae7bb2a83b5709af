"""P3's figure 10: throughput over 2, 4 and 8 machines at 10 Gbit/s, baseline and P3.

Run: `python -m engine.experiments.p3_figure_10` (7 to 28 minutes each; `--quick` 1 to 3).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from engine.benchmarks.harness.jobs import Measured
from engine.benchmarks.harness.machine import cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, ratio
from engine.benchmarks.harness.report import Report
from engine.experiments.p3_cluster import (
    BASELINE,
    P3,
    WORKLOADS,
    Workload,
    bound_samples_per_s,
    compute_s,
    expected_s,
    job,
    label,
    panels,
    race,
    setting,
    spread,
)

GBIT = 10.0
MODELS = ("resnet50", "vgg19", "sockeye-shape")
HOSTS = (2, 4, 8)
STRATEGIES = (BASELINE, P3)
COLUMNS = ("hosts", "linear", "bound", "baseline", "p3", "p3 / baseline", "most CPU")
PAPER = {
    "resnet50": "no difference at any size: 10 Gbit/s is enough",
    "vgg19": "at most 1.61, on eight machines",
    "sockeye-shape": "at most 1.18, on eight machines",
}
"""p3 over the baseline, section 5.4."""
DIFFERENCES = """\
The paper's machines have an M60 each and go up to 16; here the P4000 of its other figures is replayed, on up to 8
hosts. With n machines each port carries 2 (n - 1) / n of the parameters, so from 2 to 8 the load grows by 1.75.
Eight hosts share this machine's cores: see the CPU beside each row."""


def main() -> None:
    """Measure the chosen models, one result each."""
    options = parser().parse_args()
    for model in [options.model] if options.model else MODELS:
        panel(WORKLOADS[model], options)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    return panels(__doc__, MODELS)


def panel(workload: Workload, options: argparse.Namespace) -> None:
    """Measure one model and write its result."""
    counts = HOSTS[:2] if options.quick else HOSTS
    rounds = options.rounds or (1 if options.quick else FEWEST_ROUNDS)
    with Report(
        f"p3_figure_10-{workload.model}",
        f"P3, figure 10: throughput over machines at {GBIT:g} Gbit/s, {workload.title}",
        "How does throughput grow with the number of machines?",
        options,
    ) as report:
        minutes = sum(expected_s(workload, GBIT, hosts) for hosts in counts) * rounds * len(STRATEGIES) / 60
        report.plan(
            [f"{hosts} hosts: {rounds} rounds of {', '.join(STRATEGIES)}" for hosts in counts], minutes
        )
        for hosts in counts[1:]:
            report.method(setting(workload, hosts))
        report.method(METHOD)
        measured = {}
        for hosts in counts:
            print(f"{workload.title} on {hosts} hosts", flush=True)
            jobs = {name: job(workload, name, GBIT, hosts=hosts) for name in STRATEGIES}
            measured[hosts] = race(report, jobs, rounds, hosts=hosts, label=label(workload, hosts))
            report.table("Throughput, samples/s over all workers", COLUMNS, rows(workload, measured))
        report.note(f"The paper, p3 over its baseline: {PAPER[workload.model]}.")
        report.note(DIFFERENCES)


def rows(workload: Workload, measured: Mapping[int, Mapping[str, Sequence[Measured]]]) -> list[list[Any]]:
    """One row per number of hosts. `linear`: without any communication."""
    found = []
    for hosts, runs in measured.items():
        speeds = {name: [one.samples_per_s for one in runs[name]] for name in STRATEGIES}
        found.append(
            [
                hosts,
                hosts * workload.batch / compute_s(workload),
                bound_samples_per_s(workload, GBIT, hosts),
                *(spread(speeds[name]) for name in STRATEGIES),
                str(ratio(speeds[P3], speeds[BASELINE])),
                cpu_use(one.cpu_share for each in runs.values() for one in each),
            ]
        )
    return found


if __name__ == "__main__":
    main()
