"""How do strategies bear a straggler? One of four workers computes twice as long as the others.

    python -m engine.benchmarks.stragglers

Speed is rehearsed: samples per second of all workers while all of them run, under each strategy, over
`parameter-server`'s in the same round. Everybody else waits for the straggler there; workers that need not wait reach
3.5 / 2 = 1.75 times as many samples at the most. (Every worker runs as many steps as every other: where nobody waits,
the straggler goes on alone in the end. That part is not looked at.)

What the additional samples are worth is trained, on the digits: test accuracy after as many samples, and after as much
time, as `parameter-server` needs for its epochs. All four workers are slowed there, so that they hardly share this
machine's processors, as on machines of their own; the straggler is slowed by twice as much.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.benchmarks.harness.jobs import (
    Measured,
    bench_job,
    interleaved,
    rehearsal_arguments,
    rehearsal_of,
)
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.trained import Look, train
from engine.plan.faults import FaultsSpec, StragglerSpec
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain

WORKERS = 4
SLOW = 1
"""The worker that takes twice as long."""
SYNCHRONOUS = "parameter-server"
STRATEGIES = (SYNCHRONOUS, "async-sgd", "softsync", "bounded-staleness")
AIM = 1.6
"""Times the samples per second of `parameter-server` that `async-sgd` is to reach."""
WARM_UP = 2
START_S = 7.0
"""About how long a job takes to start and to end."""
SPEED_COLUMNS = (
    "strategy",
    "samples/s",
    "straggler's step, s",
    "another's step, s",
    "over parameter-server",
    "CPU",
)
BATCH = 16
"""Samples of each worker's step on the digits."""
OWN_MACHINE = 8.0
"""What all workers are slowed by there."""
LONGER = 2.25
"""Workers that need not wait for the straggler run so many times as many steps, to be at work in all of the time."""
EVERY_EPOCHS = 0.5
"""Between two looks at the accuracy."""
ACCURACY_COLUMNS = (
    "strategy", "after as many samples, %", "time for them, s", "after as much time, %", "samples by then",
)  # fmt: skip


def speed_job(options: argparse.Namespace, strategy: str) -> JobSpec:
    """One rehearsal with the straggler."""
    spec = bench_job(
        options.model,
        strategy,
        workers=WORKERS,
        batch=options.batch,
        steps=options.steps,
        rehearsal=rehearsal_of(options),
    )
    return replace(spec, faults=FaultsSpec(stragglers=(StragglerSpec(worker=SLOW, factor=2.0),)))


def throughput(run: Measured, batch: int) -> float:
    """Samples per second of all workers, each at its own pace."""
    return sum(batch * 1e9 / statistics.median(times) for times in run.step_ns)


def speed_rows(found: Mapping[str, Sequence[Measured]], batch: int) -> list[list[Any]]:
    """One line per strategy."""
    reached = {name: [throughput(run, batch) for run in runs] for name, runs in found.items()}
    return [
        [
            name,
            statistics.median(reached[name]),
            *(
                statistics.median(statistics.median(run.step_ns[rank]) for run in runs) / 1e9
                for rank in (SLOW, 0)
            ),
            "1" if name == SYNCHRONOUS else str(ratio(reached[name], reached[SYNCHRONOUS])),
            cpu_use(run.cpu_share for run in runs),
        ]
        for name, runs in found.items()
    ]


def trained_job(strategy: str, epochs: float, seed: int) -> JobSpec:
    """A small network for the digits on four slow workers, one of them twice as slow."""
    slowed = [{"worker": rank, "factor": OWN_MACHINE * (2 if rank == SLOW else 1)} for rank in range(WORKERS)]
    plain = {
        "name": f"digits {strategy}",
        "model": {"name": "cnn"},
        "data": {"name": "digits"},
        "strategy": {"name": strategy},
        "cluster": {"workers": WORKERS, "device": "cpu"},
        "training": {
            "epochs": epochs if strategy == SYNCHRONOUS else LONGER * epochs,
            "global_batch": BATCH * WORKERS,
            "seed": seed,
        },
        "optimizer": {"name": "sgd", "learning_rate": 0.3},
        "evaluation": {"every_epochs": EVERY_EPOCHS, "at_end": False},
        "faults": {"stragglers": slowed},
    }
    return from_plain(JobSpec, plain)


def compared(runs: Mapping[str, Sequence[Look]]) -> dict[str, tuple[Look, Look]]:
    """By strategy, of one seed: the last looks within as many samples, and within as much time, as
    `parameter-server` took in all."""
    end = runs[SYNCHRONOUS][-1]
    return {
        name: (
            [look for look in looks if look.samples <= end.samples][-1],
            [look for look in looks if look.time_s <= end.time_s][-1],
        )
        for name, looks in runs.items()
    }


def accuracy_rows(seeds: Sequence[Mapping[str, tuple[Look, Look]]]) -> list[list[Any]]:
    """One line per strategy: medians, with the smallest and the largest of the seeds."""

    def spread(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"

    return [
        [
            name,
            spread([found[name][0].accuracy for found in seeds]),
            spread([found[name][0].time_s for found in seeds]),
            spread([found[name][1].accuracy for found in seeds]),
            spread([found[name][1].samples for found in seeds]),
        ]
        for name in STRATEGIES
    ]


def speed(report: Report, options: argparse.Namespace) -> None:
    """The first half."""
    jobs = {name: speed_job(options, name) for name in options.strategies}
    report.method(
        f"Speed: {options.model}, {WORKERS} workers with a server shard beside each, batch {options.batch} each, no"
        f" limit of the network; {jobs[SYNCHRONOUS].rehearsed}; {jobs[SYNCHRONOUS].slowed}. Samples per second are the"
        " sum over the workers of batch over median iteration, by the definition of every job's throughput; the first"
        f" {WARM_UP} steps are left out. {METHOD} {BUSY}"
    )
    found = interleaved(jobs, options.rounds, report, {"model": options.model}, warm_up=WARM_UP)
    report.table("Speed with one straggler", SPEED_COLUMNS, speed_rows(found, options.batch))
    ours, theirs = (
        [throughput(run, options.batch) for run in found[name]] for name in ("async-sgd", SYNCHRONOUS)
    )
    gain = ratio(ours, theirs)
    report.aims(
        [
            (
                f"async-sgd at least {AIM} times parameter-server's samples per second",
                str(gain),
                gain.median >= AIM,
            )
        ]
    )


def accuracy(report: Report, options: argparse.Namespace) -> None:
    """The second half."""
    spec = trained_job(SYNCHRONOUS, options.epochs, 0)
    report.method(
        f"Accuracy: the small network for the digits, batch {BATCH} on each of {WORKERS} workers, plain SGD at"
        f" {spec.optimizer.learning_rate:g}, {options.epochs:g} epochs of {SYNCHRONOUS}, {options.seeds} seeds;"
        f" {spec.slowed}. The other strategies run {LONGER:g} times as many steps; of every run, the last look within"
        f" {SYNCHRONOUS}'s samples, and within its time, in the same seed, counts. A look is worker 0's, every"
        f" {EVERY_EPOCHS:g} epochs of its own steps, at what all workers hold or, where they drift, at its own"
        " model; samples are those of all workers. Medians, with the smallest and the largest of the seeds."
    )
    seeds: list[dict[str, list[Look]]] = [{} for _ in range(options.seeds)]
    for seed, name in rounds(STRATEGIES, options.seeds):
        looks = seeds[seed][name] = train(trained_job(name, options.epochs, seed))
        report.raw(
            {
                "strategy": name,
                "seed": seed,
                "seconds": look.time_s,
                "samples": look.samples,
                "accuracy": look.accuracy,
            }
            for look in looks
        )
        print(f"  seed {seed} {name}: {looks[-1].accuracy:.1f} % after {looks[-1].time_s:.1f} s", flush=True)
    rows = accuracy_rows([compared(runs) for runs in seeds])
    report.table("Accuracy with one straggler", ACCURACY_COLUMNS, rows)


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; --quick is one round of two strategies, and one short training of each."""
    add = parser.add_argument
    add("--model", default="resnet32")
    add("--rounds", type=int, default=FEWEST_ROUNDS, help="six are the fewest for a 95 %% interval")
    add("--steps", type=int, default=16, help=f"of each rehearsal; the first {WARM_UP} are left out")
    add("--seeds", type=int, default=3, help="trainings of each strategy on the digits")
    add("--epochs", type=float, default=6.0, help="of parameter-server on the digits")
    rehearsal_arguments(parser)
    # As in `pai_table_3`. Few and small messages beside a long step: the machine has four workers and their servers.
    parser.set_defaults(device="p100", efficiency=0.0724, scale=1, batch=256)
    options = parser.parse_args()
    options.strategies = list(STRATEGIES)
    if options.quick:
        options.rounds, options.steps, options.seeds, options.epochs = 1, 6, 1, 2.0
        options.strategies = [SYNCHRONOUS, "async-sgd"]
    return options


def main() -> int:
    options = options_of(arguments(__doc__))
    with Report(
        "stragglers",
        "Strategies with one straggler",
        "How many more samples per second do workers reach that do not wait for a straggler, and what are they worth?",
        options,
    ) as report:
        rehearsals = options.rounds * len(options.strategies)
        trainings = options.seeds * len(STRATEGIES)
        report.plan(
            [
                f"{options.model}, rehearsed: {options.rounds} rounds of {', '.join(options.strategies)}",
                f"digits: {options.seeds} seeds of {', '.join(STRATEGIES)}",
            ],
            minutes=(
                rehearsals * (START_S + 0.4 * options.steps) + trainings * (START_S + 2.0 * options.epochs)
            )
            / 60,
        )
        speed(report, options)
        accuracy(report, options)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
