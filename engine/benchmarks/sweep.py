"""Which strategy trains faster at which network rate? Strategy x model x rate against tuned DDP, rehearsed.

    python -m engine.benchmarks.sweep                        # VGG-19 at four rates
    python -m engine.benchmarks.sweep --models resnet50 --rates 100 300
    python -m engine.benchmarks.sweep --rates --host-rates 150 600 600 600    # unequal hosts

Computation is waited for (a derived profile), gradients, updates and every byte on the wire are real. Sizes and rates
are divided by --scale, times are not; rates are given and shown as they are on this machine's links, after the
division. DDP is tuned first: at each rate the best of several bucket sizes. All else has its defaults, or the options
that are given (`p3:slice_size=50000`); with --slices, P3 is tuned, too. Then all strategies take turns, round by round.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.benchmarks.harness.hosts import require_lab
from engine.benchmarks.harness.jobs import (
    Measured,
    bench_job,
    interleaved,
    measure,
    named,
    rehearsal_arguments,
    rehearsal_of,
)
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.plan.job import JobSpec

MIB = 2**20
SLICED = ("p3", "parameter-slicing", "p3+late-multiply")
WARM_UP = 2
"""Steps left out: rehearsed layers wait, so that only connections and buffers have to settle."""
START_S = 8.0
"""What a run needs beside its steps, for the estimate: processes, connections, the result."""

COLUMNS = (
    "model",
    "Mbit/s",
    "strategy",
    "step, s",
    "compute, s",
    "port, s",
    "bound / step",
    "against ddp",
    "against parameter-server",
    "CPU",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model at one rate."""

    model: str
    mbps: tuple[float, ...]
    """Of each host's link on this machine, each direction; one for all alike; none: not limited."""

    @property
    def rate(self) -> str:
        """In words: Mbit/s."""
        return ", ".join(f"{rate:g}" for rate in self.mbps)

    @property
    def labels(self) -> dict[str, Any]:
        """For a result's raw table."""
        return {"model": self.model, "mbps": self.rate}

    def job(
        self, options: argparse.Namespace, strategy: str, settings: Mapping[str, Any], steps: int
    ) -> JobSpec:
        """The rehearsal of one strategy."""
        workers = 1 if strategy == "single" else options.hosts
        network: dict[str, Any] = {}
        rates = [f"{rate * options.scale:g}Mbit" for rate in self.mbps]
        if len(rates) == 1:
            network = {"hosts": options.hosts, "rate": rates[0]}
        elif rates:
            network = {"hosts": options.hosts, "host_rates": rates}
        return bench_job(
            self.model,
            strategy,
            workers=workers,
            batch=options.batch,
            steps=steps,
            options=settings,
            network=network,
            rehearsal=rehearsal_of(options),
        )


def tune(
    cell: Cell, strategy: str, option: str, sizes: Sequence[int], options: argparse.Namespace, report: Report
) -> dict[str, Any]:
    """The strategy's best size at this rate, before the division by the scale: the median over interleaved rounds."""
    if len(sizes) == 1:
        report.method(f"{cell.model} at {cell.rate} Mbit/s: {strategy} with {option} {sizes[0]}, not tuned.")
        return {option: sizes[0]}
    jobs = {
        f"{strategy} {option} {size} (tuning)": cell.job(
            options, strategy, {option: size}, options.tune_steps
        )
        for size in sizes
    }
    runs = interleaved(jobs, options.tune_rounds, report, cell.labels, warm_up=WARM_UP)
    found = {
        size: statistics.median([one.iteration_ns for one in ones])
        for size, ones in zip(sizes, runs.values(), strict=True)
    }
    best = min(found, key=lambda size: found[size])
    times = ", ".join(f"{size} {time / 1e9:.3f} s" for size, time in found.items())
    report.method(f"{cell.model} at {cell.rate} Mbit/s: {strategy} tuned to {option} {best} ({times}).")
    return {option: best}


def tuned(sizes: Sequence[float]) -> int:
    """How many sizes `tune` runs: a single one is taken as it is."""
    return len(sizes) if len(sizes) > 1 else 0


def alone(model: str, options: argparse.Namespace, report: Report) -> Measured:
    """One worker, which nothing delays: its step is the computation."""
    cell = Cell(model=model, mbps=())
    found = measure(cell.job(options, "single", {}, options.tune_steps), warm_up=WARM_UP)
    report.raw([{**cell.labels, "strategy": "single", "round": 0, **found.row()}])
    print(f"{model}: {found.iteration_ns / 1e9:.3f} s of computation a step", flush=True)
    return found


def sweep_cell(cell: Cell, options: argparse.Namespace, report: Report, single: Measured) -> list[list[Any]]:
    """The table's rows of one model at one rate; `single`: one worker's run."""
    jobs = {}
    for label in {**dict.fromkeys(options.strategies), "ddp": None}:
        name, given = named(label)
        if name == "ddp" and not given:
            buckets = [round(size * MIB) for size in options.buckets]
            given = tune(cell, name, "bucket_bytes", buckets, options, report)
        elif name in SLICED and options.slices and not given:
            given = tune(cell, name, "slice_size", options.slices, options, report)
        jobs[label] = cell.job(options, name, given, options.steps)
    found = interleaved(jobs, options.rounds, report, cell.labels, warm_up=WARM_UP)
    port_s = None  # with unequal links it depends on the strategy
    if len(cell.mbps) == 1:
        port_s = 2 * (options.hosts - 1) / options.hosts * single.parameter_bytes * 8 / (cell.mbps[0] * 1e6)
    compute_s = single.iteration_ns / 1e9
    rows = []
    for name, runs in found.items():
        iteration_s = statistics.median([run.iteration_ns for run in runs]) / 1e9
        rows.append(
            [
                cell.model,
                cell.rate,
                name,
                iteration_s,
                compute_s,
                "" if port_s is None else port_s,
                "" if port_s is None else max(port_s, compute_s) / iteration_s,
                _against(found["ddp"], runs) if name != "ddp" else "1",
                _against(found["parameter-server"], runs) if _has_server_rival(name, found) else "",
                cpu_use(run.cpu_share for run in runs),
            ]
        )
    return rows


def _has_server_rival(name: str, found: Mapping[str, Any]) -> bool:
    return name == "p3" and "parameter-server" in found


def _against(baseline: Sequence[Measured], runs: Sequence[Measured]) -> str:
    """How many times as fast as the baseline, with * where that is more than chance."""
    found = ratio([run.iteration_ns for run in baseline], [run.iteration_ns for run in runs])
    return f"{found}{' *' if found.significant else ''}"


def links(options: argparse.Namespace) -> list[tuple[float, ...]]:
    """What the hosts' links are limited to, case by case."""
    return [
        *((rate,) for rate in options.rates),
        *([tuple(options.host_rates)] if options.host_rates else []),
    ]


def minutes(options: argparse.Namespace, compute_s: float) -> float:
    """What the whole sweep takes, roughly: a step is taken to last 1.6 times its computation."""
    step_s = 1.6 * compute_s
    sizes = tuned(options.buckets) + tuned(options.slices) * len({*SLICED} & {*options.strategies})
    tuning = options.tune_rounds * sizes * (START_S + options.tune_steps * step_s)
    rounds = options.rounds * len({*options.strategies, "ddp"}) * (START_S + options.steps * step_s)
    return len(options.models) * len(links(options)) * (tuning + rounds) / 60


def cell_arguments(parser: argparse.ArgumentParser) -> None:
    """What `Cell.job` and `tune` ask for."""
    parser.add_argument("--tune-steps", type=int, default=6)
    parser.add_argument("--tune-rounds", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=4)
    rehearsal_arguments(parser)


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; --quick is one rate, two rounds, few steps."""
    add = parser.add_argument
    add("--models", nargs="+", default=["vgg19"])
    add(
        "--rates", type=float, nargs="*", default=[150, 300, 500, 1000], help="Mbit/s on this machine's links"
    )
    add(
        "--host-rates",
        type=float,
        nargs="+",
        default=[],
        help="one for each host: once more, with unequal links",
    )
    add("--strategies", nargs="+", default=["parameter-server", "p3", "ring-allreduce-overlap", "ddp"])
    add("--rounds", type=int, default=FEWEST_ROUNDS, help="six are the fewest for a 95 %% interval")
    add("--steps", type=int, default=9, help=f"of each run; the first {WARM_UP} are left out")
    add("--buckets", type=float, nargs="+", default=[1, 5, 25, 100], help="MiB, for DDP's tuning")
    cell_arguments(parser)
    add(
        "--slices",
        type=int,
        nargs="*",
        default=[],
        help="elements, for P3's tuning, before the division by the scale; none: its default",
    )
    options = parser.parse_args()
    if options.host_rates and len(options.host_rates) != options.hosts:
        parser.error(f"{len(options.host_rates)} --host-rates for {options.hosts} --hosts: give one for each")
    if options.quick:
        options.rates, options.rounds, options.steps = [300], 1, 4
        options.buckets = [25]
        options.strategies = ["parameter-server", "p3", "ddp"]
    return options


def main() -> None:
    options = options_of(arguments(__doc__))
    require_lab()
    with Report(
        "sweep",
        "Strategies over network rates, rehearsed",
        "How fast is each strategy, against DDP with its best bucket size, at which rate?",
        options,
    ) as report:
        report.plan(
            [
                f"{model} at {'; '.join(Cell(model=model, mbps=mbps).rate for mbps in links(options))} Mbit/s: "
                f"tune the sizes, then "
                f"{options.rounds} rounds of {', '.join(options.strategies)}"
                for model in options.models
            ],
            minutes=minutes(options, compute_s=1.2),
        )
        report.method(
            f"Rehearsed: {options.hosts} hosts, {options.device} at {options.efficiency:g} of its peak, batch "
            f"{options.batch} per worker; tensors, slices and rates divided by {options.scale:g}, times not. A step's "
            f"time is the slowest worker's median iteration, the first {WARM_UP} steps left out. {METHOD} More than 1 "
            "is faster than the baseline; * means significant. Compute is a single worker's step; port is 2 (n-1)/n of "
            f"the model over the rate, where all links are alike. {BUSY}"
        )
        rows: list[list[Any]] = []
        for model in options.models:
            single = alone(model, options, report)
            for mbps in links(options):
                cell = Cell(model=model, mbps=mbps)
                print(f"{model} at {cell.rate} Mbit/s", flush=True)
                rows += sweep_cell(cell, options, report, single)
                report.table("Speed", COLUMNS, rows)


if __name__ == "__main__":
    main()
