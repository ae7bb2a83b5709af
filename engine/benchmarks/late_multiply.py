"""How much faster is p3+late-multiply than tuned DDP, and how close to computing alone? VGG-19 over rates, rehearsed.

    python -m engine.benchmarks.late_multiply

The aims, at each rate: at least min(1.5, 0.95 T_ddp / T_compute) times as fast as DDP. And at the rate at which DDP
takes twice its computation: within 5 % of the computation alone. That rate is interpolated between those of the sweep
(DDP's time is a line over 1/rate where the network sets it), and measured then. Computation, late multiplications
included, is waited for; factors, gradients, updates and every byte on the wire are real. Sizes and rates are divided by
--scale, times are not; rates are those of this machine's links.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from engine.benchmarks.harness.hosts import require_lab
from engine.benchmarks.harness.jobs import Measured, interleaved
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.sweep import MIB, START_S, WARM_UP, Cell, alone, cell_arguments, tune, tuned

OURS = "p3+late-multiply"
ENOUGH, OF_COMPUTE = 1.5, 0.95
"""Times as fast as DDP that are enough; the share of the computation that a step must be, where it matters."""
COLUMNS = (
    "Mbit/s",
    "strategy",
    "step, s",
    "compute, s",
    "compute / step",
    "against ddp",
    "wanted",
    "verdict",
    "CPU",
)


def step_s(runs: Sequence[Measured]) -> float:
    """The median over the rounds."""
    return statistics.median([run.iteration_ns for run in runs]) / 1e9


def rows_of(cell: Cell, found: Mapping[str, Sequence[Measured]], compute_s: float) -> list[list[Any]]:
    """The table's rows of one rate."""
    ddp = found["ddp"]
    aim = min(ENOUGH, OF_COMPUTE * step_s(ddp) / compute_s)
    rows = []
    for name, runs in found.items():
        against = ratio([run.iteration_ns for run in ddp], [run.iteration_ns for run in runs])
        verdict = ("met" if against.median >= aim else "missed") if name == OURS else ""
        rows.append(
            [
                cell.rate,
                name,
                step_s(runs),
                compute_s,
                compute_s / step_s(runs),
                "1" if name == "ddp" else f"{against}{' *' if against.significant else ''}",
                f"{aim:.2f}" if name == OURS else "",
                verdict,
                cpu_use(run.cpu_share for run in runs),
            ]
        )
    return rows


def twice_at(times: Mapping[float, float], compute_s: float) -> float | None:
    """The rate at which DDP takes twice its computation, between two of the rates that were measured; None where all of
    them are on one side."""
    ordered = sorted(times)
    for slow, fast in pairwise(ordered):
        if times[slow] >= 2 * compute_s >= times[fast]:
            share = (2 * compute_s - times[fast]) / max(times[slow] - times[fast], 1e-9)
            return 1 / (1 / fast + share * (1 / slow - 1 / fast))
    return None


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; --quick is two rates, one round, few steps."""
    add = parser.add_argument
    add("--model", default="vgg19")
    add(
        "--rates", type=float, nargs="+", default=[150, 300, 500, 1000], help="Mbit/s on this machine's links"
    )
    add("--rounds", type=int, default=FEWEST_ROUNDS, help="six are the fewest for a 95 %% interval")
    add("--steps", type=int, default=9, help=f"of each run; the first {WARM_UP} are left out")
    add("--bucket", type=float, nargs="+", default=[5, 25, 100], help="MiB, for DDP's tuning")
    add(
        "--slice",
        type=int,
        default=200_000,
        help="elements, for both of P3, before the division by the scale",
    )
    cell_arguments(parser)
    options = parser.parse_args()
    if options.quick:
        options.rates, options.rounds, options.steps, options.bucket = [300, 1000], 1, 4, [25]
    return options


def main() -> None:
    options = options_of(arguments(__doc__))
    require_lab()
    with Report(
        "late-multiply",
        "Late-multiply with P3 over network rates, rehearsed",
        "How much faster is p3+late-multiply than tuned DDP, and how close to computing alone?",
        options,
    ) as report:
        cells = len(options.rates) + 1
        sizes = options.tune_rounds * tuned(options.bucket)
        runs = 3 * options.rounds * options.steps + sizes * options.tune_steps
        starts = 3 * options.rounds + sizes
        report.plan(
            [f"{options.model} at {rate:g} Mbit/s" for rate in options.rates]
            + ["the rate at which DDP takes twice its computation"],
            minutes=cells * (runs * 1.6 * 1.2 + starts * START_S) / 60,
        )
        report.method(
            f"Rehearsed: {options.hosts} hosts, {options.device} at {options.efficiency:g} of its peak, batch"
            f" {options.batch} per worker; tensors, slices and rates divided by {options.scale:g}, times not; factors"
            " have their true rows and divided columns. Late multiplications are replayed: each takes as long as the"
            " layer's forward pass over all workers' samples. A step's time is the slowest worker's median iteration,"
            f" the first {WARM_UP} steps left out. {METHOD} Compute is a single worker's step. {BUSY}"
        )
        compute_s = alone(options.model, options, report).iteration_ns / 1e9
        times: dict[float, float] = {}
        rows: list[list[Any]] = []

        def at(rate: float) -> dict[str, list[Measured]]:
            print(f"{options.model} at {rate:g} Mbit/s", flush=True)
            cell = Cell(model=options.model, mbps=(rate,))
            buckets = [round(size * MIB) for size in options.bucket]
            settings = {
                "ddp": tune(cell, "ddp", "bucket_bytes", buckets, options, report),
                "p3": {"slice_size": options.slice},  # for comparison
                OURS: {"slice_size": options.slice},
            }
            jobs = {name: cell.job(options, name, given, options.steps) for name, given in settings.items()}
            found = interleaved(jobs, options.rounds, report, cell.labels, warm_up=WARM_UP)
            times[rate] = step_s(found["ddp"])
            rows.extend(rows_of(cell, found, compute_s))
            report.table("Speed", COLUMNS, rows)
            return found

        for rate in options.rates:
            at(rate)
        twice = twice_at(times, compute_s)
        if twice is None:
            report.method(
                "DDP takes twice its computation at none of these rates: give slower or faster ones."
            )
        else:
            rate = round(twice, 1)
            share = compute_s / step_s(at(rate)[OURS])
            report.method(
                f"At {rate:g} Mbit/s DDP takes {times[rate] / compute_s:.2f} times its computation; there the"
                f" computation is {share:.1%} of a step of {OURS}, at least {OF_COMPUTE:.0%} wanted:"
                f" {'met' if share >= OF_COMPUTE else 'missed'}."
            )


if __name__ == "__main__":
    main()
