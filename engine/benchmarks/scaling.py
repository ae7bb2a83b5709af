"""How does throughput grow with workers? 1, 2, 4 and 8 rehearsed workers on as many hosts, against linear.

    python -m engine.benchmarks.scaling --rate 500

Weak scaling: the batch of each worker stays the same. Computation is waited for, so that workers do not share this
machine's cores; everything else is real. Sizes and the rate are divided by --scale, times are not.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from engine.benchmarks.harness.hosts import require_lab
from engine.benchmarks.harness.jobs import (
    Measured,
    bench_job,
    interleaved,
    measure,
    rehearsal_arguments,
    rehearsal_of,
)
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.report import Report, arguments
from engine.plan.job import JobSpec

WARM_UP = 2
COLUMNS = ("model", "strategy", "workers", "samples/s", "times one worker", "of linear", "CPU")


def job(options: argparse.Namespace, model: str, strategy: str, workers: int) -> JobSpec:
    """One rehearsal, every worker on a host of its own."""
    network = {"hosts": workers, "rate": f"{options.rate * options.scale:g}Mbit"} if workers > 1 else {}
    return bench_job(
        model,
        strategy if workers > 1 else "single",
        workers=workers,
        batch=options.batch,
        steps=options.steps,
        network=network,
        rehearsal=rehearsal_of(options),
    )


def row(model: str, strategy: str, workers: int, runs: list[Measured], alone: float) -> list[Any]:
    """Throughput and its share of `alone` (one worker's samples per second) times the workers."""
    reached = statistics.median(run.samples_per_s for run in runs)
    cpu = cpu_use(run.cpu_share for run in runs)
    return [model, strategy, workers, reached, reached / alone, reached / alone / workers, cpu]


def main() -> None:
    parser = arguments(__doc__)
    add = parser.add_argument
    add("--models", nargs="+", default=["resnet50", "vgg19"])
    add("--strategies", nargs="+", default=["parameter-server", "p3", "ring-allreduce-overlap", "ddp"])
    add("--workers", type=int, nargs="+", default=[2, 4, 8])
    add("--rate", type=float, default=500, help="Mbit/s on this machine's links, after the division")
    add("--rounds", type=int, default=2)
    add("--steps", type=int, default=8, help=f"of each run; the first {WARM_UP} are left out")
    rehearsal_arguments(parser)
    options = parser.parse_args()
    if options.quick:
        options.models, options.workers, options.rounds, options.steps = ["resnet50"], [2], 1, 4
        options.strategies = ["p3", "ddp"]
    require_lab()
    with Report(
        "scaling", "Scaling over workers, rehearsed", "How does throughput grow with workers?", options
    ) as report:
        count = options.rounds * len(options.models) * len(options.strategies) * len(options.workers)
        report.plan(
            [
                f"{options.models} with {options.workers} workers, {options.rounds} rounds of {options.strategies}"
            ],
            minutes=count * (10 + 1.8 * options.steps) / 60,
        )
        report.method(
            f"Rehearsed: {options.device} at {options.efficiency:g} of its peak, batch {options.batch} per worker, "
            f"{options.rate:g} Mbit/s per host and direction on this machine; tensors, slices and rates divided by "
            f"{options.scale:g}, times not. Weak scaling; linear is the single worker's throughput times the workers. "
            f"Medians of {options.rounds} rounds in turned order, the first {WARM_UP} steps left out. {BUSY}"
        )
        rows = []
        for model in options.models:
            one = measure(job(options, model, "single", 1), warm_up=WARM_UP)
            rows.append(row(model, "single", 1, [one], one.samples_per_s))
            report.raw([{"model": model, "strategy": "single", "workers": 1, **one.row()}])
            for workers in options.workers:
                print(f"{model}, {workers} workers", flush=True)
                jobs = {name: job(options, model, name, workers) for name in options.strategies}
                labels = {"model": model, "workers": workers}
                found = interleaved(jobs, options.rounds, report, labels, warm_up=WARM_UP)
                rows += [row(model, name, workers, runs, one.samples_per_s) for name, runs in found.items()]
                report.table("Throughput", COLUMNS, rows)


if __name__ == "__main__":
    main()
