"""PAI's table 3 (papers 002): model average against synchronization in every step.

Run: `python -m engine.experiments.pai_table_3` (about 6 minutes; `--quick` about 2).

The paper gives the minutes in which ResNet-32 converges under model average, every 10 steps with a batch of 128 on
each of 1 to 8 devices. Minutes to converge are steps times time per step, and both are looked at apart:

Time per step is rehearsed: ResNet-32 on four hosts, each with a worker and a server shard, its compute replayed at the
share of a P100's peak that makes one device take the 0.079 s of the paper's table 2. `model-average` is compared with
TensorFlow's own exchange in every step (`parameter-server-deferred`) over the same servers, at two rates: one that a
step's bytes fill and one that they do not. Times are means over whole periods, because a median over steps would leave
the averages out. Time runs slower by one factor, as in `p3_cluster`, because small layers mean many messages.

Accuracy is trained: the residual network for digits, the same number of epochs alone and with 2 and 4 workers that each
take the batch that one took alone, average every 10 steps and follow the linear rule, so that n workers take 1/n of the
steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.jobs import Measured, bench_job, measure
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.report import Report, arguments
from engine.experiments.p3_cluster import RESULTS, START_S, WARM_UP, race, spread
from engine.models.describe import describe_request
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.profile import profile_of

PERIOD = 10
EVERY_STEP, AVERAGED = "parameter-server-deferred", "model-average"

WORKERS = 4
BATCH = 128
"""Samples of one worker's step."""
GBITS = (0.1, 1.0)
EFFICIENCY = 0.0724
"""Of the P100's peak, so that one step takes `ALONE_S`."""
ALONE_S = 0.079
SLOW = 4.0
PERIODS = 3
TIME_COLUMNS = ("Gbit/s", "every step, s", "model average, s", "gain", "computing alone, s", "most CPU")

COUNTS = (2, 4)
EPOCHS = 30
DIGITS_BATCH = 32
RATE = 0.02
ACCURACY_COLUMNS = ("workers", "steps", "accuracy, %", "minus single, points")


def main() -> None:
    """Measure and write the result."""
    options = parser().parse_args()
    rates = GBITS[:1] if options.quick else GBITS
    seeds = range(1 if options.quick else options.seeds)
    with Report(
        "pai_table_3",
        "PAI, table 3: model average",
        "What does it gain to average every 10 steps in place of synchronizing every step, and what does it cost?",
        options,
    ) as report:
        seconds = options.rounds * sum(
            expected_s(name, gbit) for gbit in rates for name in (EVERY_STEP, AVERAGED)
        )
        report.plan(
            [
                *(f"{gbit:g} Gbit/s: {options.rounds} rounds of both strategies" for gbit in rates),
                f"digits: {len(seeds)} seeds of 1, 2 and 4 workers",
            ],
            (seconds + len(seeds) * 60) / 60,
        )
        report.method(
            f"ResNet-32, {description().parameter_count / 1e6:.2f} M parameters, batch {BATCH} on each of {WORKERS} "
            f"hosts; {timed_job(EVERY_STEP, GBITS[0]).rehearsed}, time {SLOW:g} times slower (batch times {SLOW:g}, "
            f"rate by {SLOW:g}); times below are the true ones: means over {PERIODS} periods after {WARM_UP} steps of "
            f"warm-up. {BUSY}"
        )
        measured = {}
        for gbit in rates:
            print(f"{gbit:g} Gbit/s", flush=True)
            jobs = {name: timed_job(name, gbit) for name in (EVERY_STEP, AVERAGED)}
            measured[gbit] = race(report, jobs, options.rounds, gbit=gbit)
            report.table("Time of one step", TIME_COLUMNS, time_rows(measured))
        report.method(
            f"Accuracy: resnet-digits, {EPOCHS} epochs, batch {DIGITS_BATCH} on each worker, SGD with momentum 0.9 at "
            f"{RATE} times the number of workers (a warm-up of one period, then a cosine), seeds {list(seeds)}."
        )
        found = {count: [accuracy(report, count, seed) for seed in seeds] for count in (1, *COUNTS)}
        report.table("Accuracy after as many epochs", ACCURACY_COLUMNS, accuracy_rows(found))
        report.note(
            "The paper converges 6.4 times as fast on 8 devices as on one. It does not give its network's rate, so what"
            " compares is the kind of gain: n workers take 1/n of the steps, and a step hardly costs more than on one."
        )


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    made.add_argument("--rounds", type=int, default=1, help="runs of each strategy at each rate")
    made.add_argument("--seeds", type=int, default=3, help="trainings of each number of workers")
    return made


def timed_job(strategy: str, gbit: float) -> JobSpec:
    """One worker and one server shard on each host, for whole periods after the warm-up."""
    options: dict[str, Any] = {"period": PERIOD} if strategy == AVERAGED else {}
    return bench_job(
        "resnet32",
        strategy,
        workers=WORKERS,
        batch=round(BATCH * SLOW),
        steps=WARM_UP + PERIODS * PERIOD + 1,
        options=options,
        network={"hosts": WORKERS, "rate": f"{gbit / SLOW:g}Gbit"},
        rehearsal={"device": "p100", "efficiency": EFFICIENCY},
    )


@cache
def description() -> ModelDescription:
    """ResNet-32."""
    spec = timed_job(EVERY_STEP, GBITS[0])
    return describe_request({"model": to_plain(spec.model), "data": to_plain(spec.data)})


def compute_s() -> float:
    """Seconds of one step's compute on the paper's device."""
    profile = profile_of(timed_job(EVERY_STEP, GBITS[0]), description())
    return BATCH * (profile.forward_s + profile.backward_s)


def port_s(gbit: float) -> float:
    """Seconds that a synchronization takes through each host's port: gradients out, answers in, then the other way;
    a quarter of the parameters lives beside the worker."""
    return 2 * (WORKERS - 1) / WORKERS * description().parameter_bytes * 8 / (gbit * 1e9)


def expected_s(strategy: str, gbit: float) -> float:
    """About how long one run takes here."""
    often = 1 / PERIOD if strategy == AVERAGED else 1.0
    return START_S + (WARM_UP + PERIODS * PERIOD + 1) * SLOW * 1.2 * (compute_s() + often * port_s(gbit))


def mean_s(one: Measured) -> float:
    """Seconds of a step: the mean over whole periods, of the slowest worker."""
    return max(statistics.mean(worker) for worker in one.step_ns) / 1e9 / SLOW


def time_rows(measured: Mapping[float, Mapping[str, Sequence[Measured]]]) -> list[list[Any]]:
    """One line per rate."""
    found: list[list[Any]] = []
    for gbit, runs in measured.items():
        every, averaged = ([mean_s(one) for one in runs[name]] for name in (EVERY_STEP, AVERAGED))
        found.append(
            [
                gbit,
                spread(every, digits=3),
                spread(averaged, digits=3),
                f"{statistics.median(every) / statistics.median(averaged):.2f}",
                f"{compute_s():.3f}",
                cpu_use(one.cpu_share for some in runs.values() for one in some),
            ]
        )
    return found


def trained_job(workers: int, seed: int) -> JobSpec:
    """The digits' residual network, alone or averaged."""
    strategy: dict[str, Any] = {"name": "single"}
    if workers > 1:
        options = {"period": PERIOD, "warm_up_steps": PERIOD, "learning_rate_rule": "linear"}
        strategy = {"name": AVERAGED, "options": options}
    plain = {
        "name": f"digits {workers}",
        "model": {"name": "resnet-digits"},
        "data": {"name": "digits"},
        "strategy": strategy,
        "cluster": {"workers": workers, "device": "cpu"},
        "training": {"epochs": EPOCHS, "global_batch": DIGITS_BATCH * workers, "seed": seed},
        "optimizer": {
            "name": "sgd",
            "learning_rate": RATE,
            "options": {"momentum": 0.9, "weight_decay": 1e-4},
        },
        "schedule": {"name": "cosine"},
        "evaluation": {"every_epochs": None, "at_end": True},
    }
    return from_plain(JobSpec, plain)


def accuracy(report: Report, workers: int, seed: int) -> tuple[int, float]:
    """(steps, test accuracy in percent) of one training."""
    with tempfile.TemporaryDirectory(prefix="trainyard-experiment-") as directory:
        measure(trained_job(workers, seed), directory=Path(directory))
        summary = json.loads((Path(directory) / "result" / "summary.json").read_text(encoding="utf-8"))
    found = summary["steps"], 100 * summary["test_accuracy"]
    print(f"  {workers} workers, seed {seed}: {found[1]:.2f} % after {found[0]} steps", flush=True)
    report.raw([{"job": "digits", "workers": workers, "seed": seed, "steps": found[0], "accuracy": found[1]}])
    return found


def accuracy_rows(found: Mapping[int, Sequence[tuple[int, float]]]) -> list[list[Any]]:
    """One line per number of workers, the first of which is 1; differences of the means over the seeds."""
    alone = statistics.mean(percent for _, percent in found[1])
    return [
        [
            workers,
            runs[0][0],
            spread([percent for _, percent in runs], digits=2),
            f"{statistics.mean(percent for _, percent in runs) - alone:+.2f}",
        ]
        for workers, runs in found.items()
    ]


if __name__ == "__main__":
    main()
