"""P3's figure 7: throughput against bandwidth, four machines, baseline, slicing alone and P3.

Run: `python -m engine.experiments.p3_figure_7 --model resnet50` (all four panels without --model; 20 to 50 minutes
each on an idle machine, `--quick` 1 to 4).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from engine.benchmarks.harness.jobs import Measured
from engine.benchmarks.harness.machine import MOST_CPU, cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, Ratio, ratio
from engine.benchmarks.harness.report import Report
from engine.experiments.p3_cluster import (
    BASELINE,
    P3,
    SLICING,
    WORKLOADS,
    Workload,
    bound_samples_per_s,
    compute_s,
    expected_s,
    job,
    label,
    panels,
    port_s,
    race,
    setting,
    spread,
)

STRATEGIES = (BASELINE, SLICING, P3)
RATES: Mapping[str, Sequence[float]] = {
    "resnet50": (2, 3, 4, 6, 10),
    "inception-v3": (1.5, 2, 3, 4),
    "vgg19": (4, 6, 15, 30),
    "sockeye-shape": (2, 3, 4, 6, 10),
}
"""Gbit/s, around where the port's time meets the compute's."""
PAPER: Mapping[str, Mapping[str, str]] = {
    "resnet50": {
        "most": "1.26 at 4 Gbit/s",
        "slicing": "about 1 everywhere",
        "baseline down to": "6 Gbit/s",
        "p3 down to": "4 Gbit/s",
    },
    "inception-v3": {
        "most": "1.18",
        "slicing": "about 1 everywhere",
        "baseline down to": "not given in the text",
        "p3 down to": "not given in the text",
    },
    "vgg19": {
        "most": "1.66 at 15 Gbit/s",
        "slicing": "1.49 at 30 Gbit/s",
        "baseline down to": "above 30 Gbit/s",
        "p3 down to": "not given in the text",
    },
    "sockeye-shape": {
        "most": "1.38",
        "slicing": "considerable, not given",
        "baseline down to": "not given in the text",
        "p3 down to": "not given in the text",
    },
}
"""Section 5.2, figure 7."""
ON_THE_LINE = 0.95
"""Throughput counts as unlimited by the network from this share of the compute bound on."""
DIFFERENCES = """\
What differs from the paper's set-up, and which way it acts. **Baseline**: `parameter-server` sends, splits, notifies
and pulls as the paper describes KVStore, but it is not MXNet: gradients are sent from their own memory, shards add at
memory speed, and both directions of a link are used at once. What MXNet and ps-lite spend on copies, serialization
and the host's CPU is missing, which by itself keeps the baseline on the line to lower rates. **Port's bound**: a step
cannot be shorter than its payload takes through a port, and where compute is longer than that for every layer, all
orders are alike. VGG-19's payload at 15 and 30 Gbit/s takes less than half of a P4000's compute time at this batch,
so the paper's gains there cannot come from the links alone. **Links**: the paper limits what leaves a machine; here
both directions of every port are limited, as a switch does. **Compute**: derived from FLOPs, so every step takes the
same time; real steps vary, which costs synchronous training at every rate. **Sizes** of Sockeye's layers and all
batch sizes are ours."""


def main() -> None:
    """Measure the chosen panels."""
    options = parser().parse_args()
    for model in [options.model] if options.model else WORKLOADS:
        panel(WORKLOADS[model], options)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    found = panels(__doc__, WORKLOADS)
    found.add_argument("--rates", type=float, nargs="+", help="Gbit/s")
    return found


def panel(workload: Workload, options: argparse.Namespace) -> None:
    """Measure one model and write its result."""
    rates = options.rates or (RATES[workload.model][1:3] if options.quick else RATES[workload.model])
    rounds = options.rounds or (1 if options.quick else FEWEST_ROUNDS)
    with Report(
        f"p3_figure_7-{workload.model}",
        f"P3, figure 7: throughput against bandwidth, {workload.title}",
        "At which rates is P3 faster than a KVStore-like server, and slicing alone, and by how much?",
        options,
    ) as report:
        runs_s = sum(expected_s(workload, rate) for rate in rates) * rounds * len(STRATEGIES)
        report.plan(
            [f"{rate:g} Gbit/s: {rounds} rounds of {', '.join(STRATEGIES)}" for rate in rates], runs_s / 60
        )
        report.method(setting(workload))
        report.method(METHOD)
        measured = {}
        for rate in rates:
            print(f"{workload.title} at {rate:g} Gbit/s", flush=True)
            jobs = {name: job(workload, name, rate) for name in STRATEGIES}
            measured[rate] = race(report, jobs, rounds, gbit=rate, label=label(workload))
            report.table("Throughput, samples/s over all workers", COLUMNS, rows(workload, measured))
        report.table("Beside the paper", ("what", "paper", "here (rehearsed)"), beside(workload, measured))
        report.note(DIFFERENCES)


COLUMNS = (
    "Gbit/s",
    "port's time / compute",
    "bound",
    "baseline",
    "slicing",
    "p3",
    "slicing / baseline",
    "p3 / baseline",
    "most CPU",
)
Measurements = Mapping[float, Mapping[str, Sequence[Measured]]]


def rows(workload: Workload, measured: Measurements) -> list[list[Any]]:
    """One row per rate; throughputs are medians over the rounds with their range."""
    return [
        [
            rate,
            port_s(workload, rate) / compute_s(workload),
            bound_samples_per_s(workload, rate),
            *(spread([one.samples_per_s for one in runs[name]]) for name in STRATEGIES),
            str(_gain(runs, SLICING)),
            str(_gain(runs, P3)),
            cpu_use(one.cpu_share for each in runs.values() for one in each),
        ]
        for rate, runs in measured.items()
    ]


def beside(workload: Workload, measured: Measurements) -> list[list[str]]:
    """The paper's claims and ours."""
    paper = PAPER[workload.model]
    return [
        ["p3 over baseline, at most", paper["most"], _most(measured, P3)],
        ["slicing over baseline, at most", paper["slicing"], _most(measured, SLICING)],
        ["baseline keeps the line down to", paper["baseline down to"], _line(workload, measured, BASELINE)],
        ["p3 keeps the line down to", paper["p3 down to"], _line(workload, measured, P3)],
    ]


def _most(measured: Measurements, strategy: str) -> str:
    rate = max(measured, key=lambda each: _gain(measured[each], strategy).median)
    busy = any(one.cpu_share > MOST_CPU for name in (strategy, BASELINE) for one in measured[rate][name])
    return f"{_gain(measured[rate], strategy).median:.2f} at {rate:g} Gbit/s{' BUSY' if busy else ''}"


def _line(workload: Workload, measured: Measurements, strategy: str) -> str:
    """The lowest rate from which on throughput stays within 5 % of the compute bound, and its share below that."""
    bound = 4 * workload.batch / compute_s(workload)
    kept, below = f"above {max(measured):g} Gbit/s", ""
    for rate in sorted(measured, reverse=True):
        share = statistics.median(one.samples_per_s for one in measured[rate][strategy]) / bound
        if share < ON_THE_LINE:
            below = f" ({share:.1%} of it at {rate:g})"
            break
        kept = f"{rate:g} Gbit/s"
    return kept + below


def _gain(runs: Mapping[str, Sequence[Measured]], strategy: str) -> Ratio:
    """Throughput over the baseline's, pair by pair."""
    return ratio([one.samples_per_s for one in runs[strategy]], [one.samples_per_s for one in runs[BASELINE]])


if __name__ == "__main__":
    main()
