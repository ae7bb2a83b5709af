"""What do codecs do to accuracy? p3 with each codec against p3 with fp32, from the same seeds.

    python -m engine.benchmarks.accuracy                          # the digits, ten seeds: about an hour
    python -m engine.benchmarks.accuracy --codecs int8,powersgd   # a piece of it
    python -m engine.benchmarks.accuracy --problem images         # CIFAR's shape, 5,000 test samples
    python -m engine.benchmarks.accuracy --problem cifar10 --directory /where/its/batch/files/are

Every run trains the same number of steps. A difference is taken within a seed, which gives both the same initial
parameters and the same batches; the mean over seeds has an interval by Student's t, as `trainyard best` has it of one
pair. A codec keeps accuracy if that interval lies above -0.5 points. Each codec is a question of its own: of codecs
that lose just so much, one in forty passes by chance.

The generated images are hard enough that networks differ: about nine in ten are recognized. Codecs have their default
options; where DGC has the momentum, the optimizer has none; where votes are counted, the learning rate is a fiftieth.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from engine.axes.codec import CODEC
from engine.benchmarks.harness.pairs import rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.trained import train
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.telemetry.means import interval_of_mean

AS_IS = next(row.name for row in CODEC if "as-is" in row.traits)
KEEPS = -0.5
"""Points of accuracy, below which the interval of a difference must not reach."""
SEEDS = 10
WORKERS = 2
START_S = 6.0
"""Of a run, beside its steps."""
SIGNS = 0.02
"""Times the learning rate, where every step has one size."""
COLUMNS = ("codec", "accuracy, %", "over fp32, points", "95 % interval", "keeps accuracy", "seconds, median")
PROBLEMS: Mapping[str, Mapping[str, Any]] = {
    "digits": {
        "model": {"name": "resnet-digits", "options": {"blocks": 1}},
        "data": {"name": "digits"},
        "training": {"steps": 160, "global_batch": 64},
        "optimizer": {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}},
    },
    "images": {
        "model": {"name": "resnet32", "options": {"blocks": 1}},
        "data": {
            "name": "synthetic",
            "options": {
                "shape": [3, 32, 32],
                "classes": 10,
                "samples": 8192,
                "test_samples": 5000,
                "signal": 0.12,
            },
        },
        "training": {"steps": 400, "global_batch": 64},
        "optimizer": {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}},
    },
    "cifar10": {
        "model": {"name": "resnet32", "options": {"blocks": 1}},
        "data": {"name": "cifar10"},
        "training": {"steps": 2000, "global_batch": 128},
        "optimizer": {"name": "sgd", "learning_rate": 0.1, "options": {"momentum": 0.9}},
    },
}
STEP_S = {"digits": 0.08, "images": 0.5, "cifar10": 1.0}
"""About how long a step takes on two cores."""


def job(problem: str, codec: str, seed: int, *, steps: int | None = None, directory: str = "") -> JobSpec:
    """One training."""
    plain = dict(PROBLEMS[problem])
    traits, training, optimizer = CODEC[codec].traits, plain["training"], plain["optimizer"]
    options: dict[str, Any] = {"codec": codec}
    if "own" in traits:
        options["codec_options"] = {"momentum": optimizer["options"]["momentum"]}
        optimizer = {**optimizer, "options": {}}
    if "votes" in traits:
        optimizer = {**optimizer, "learning_rate": SIGNS * optimizer["learning_rate"]}
    data = dict(plain["data"])
    if directory:
        data["options"] = {"directory": directory}
    return from_plain(
        JobSpec,
        {
            **plain,
            "name": f"{problem} {codec}",
            "data": data,
            "strategy": {"name": "p3", "options": options},
            "cluster": {"workers": WORKERS, "device": "cpu", "threads": 1},
            "training": {**training, "seed": seed, "steps": steps or training["steps"]},
            "optimizer": optimizer,
            "evaluation": {"every_epochs": None, "at_end": True},
        },
    )


def differences(found: Mapping[str, Sequence[float]], codec: str) -> list[float]:
    """Points of accuracy over fp32, seed by seed, of the seeds that both have."""
    return [ours - theirs for ours, theirs in zip(found[codec], found[AS_IS], strict=False)]


def rows(found: Mapping[str, Sequence[float]], seconds: Mapping[str, Sequence[float]]) -> list[list[Any]]:
    """One line per codec that has run, fp32 first."""
    lines = []
    for codec, accuracies in found.items():
        if not accuracies:
            continue
        apart = differences(found, codec)
        interval = interval_of_mean(apart) if codec != AS_IS else None
        keeps = "-" if interval is None else "yes" if interval[0] > KEEPS else "NO"
        lines.append(
            [
                codec,
                f"{statistics.mean(accuracies):.2f}",
                f"{statistics.mean(apart):+.2f}" if codec != AS_IS else "-",
                f"{interval[0]:+.2f} to {interval[1]:+.2f}" if interval is not None else "-",
                keeps,
                f"{statistics.median(seconds[codec]):.1f}",
            ]
        )
    return lines


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; --quick is three seeds of few steps of two codecs."""
    known = [row.name for row in CODEC if row.available and row.name != AS_IS]
    parser.add_argument("--problem", choices=sorted(PROBLEMS), default="digits")
    parser.add_argument("--directory", default="", help="of CIFAR-10's batch files")
    parser.add_argument("--codecs", default=",".join(known), help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=None)
    options = parser.parse_args()
    if (options.problem == "cifar10") != bool(options.directory):
        parser.error("--directory belongs to --problem cifar10, which is read from its files")
    options.names = [CODEC.require(name, "--codecs").name for name in options.codecs.split(",")]
    if options.quick:
        options.names, options.seeds, options.steps = ["fp16", "powersgd"], 3, 20
    return options


def main() -> int:
    try:
        options = options_of(arguments(__doc__))
    except UserError as error:
        raise SystemExit(str(error)) from None
    names = [AS_IS, *(name for name in options.names if name != AS_IS)]
    steps = options.steps or PROBLEMS[options.problem]["training"]["steps"]
    with Report(
        f"accuracy-{options.problem}",
        f"What codecs do to accuracy: {options.problem}",
        "Which codecs keep p3's accuracy, within half a point?",
        options,
    ) as report:
        each_s = START_S + steps * STEP_S[options.problem]
        minutes = options.seeds * len(names) * each_s / 60
        report.plan([f"{options.seeds} seeds of {steps} steps of p3 with {', '.join(names)}"], minutes)
        report.method(
            f"p3 on {WORKERS} workers, one thread each, no limit of the network; {steps} steps from each seed, and the"
            " accuracy after the last one on all test samples. Differences within seeds; Student's t over seeds."
        )
        found: dict[str, list[float]] = {name: [] for name in names}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for seed, name in rounds(names, options.seeds):
            last = train(job(options.problem, name, seed, steps=steps, directory=options.directory))[-1]
            found[name].append(last.accuracy)
            seconds[name].append(last.time_s)
            report.raw([{"codec": name, "seed": seed, "accuracy": last.accuracy, "seconds": last.time_s}])
            print(f"  seed {seed} {name}: {last.accuracy:.2f} %", flush=True)
        report.table("Accuracy, from the same seeds", COLUMNS, rows(found, seconds))
        apart = {name: interval_of_mean(differences(found, name)) for name in names[1:]}
        keeping = [name for name, interval in apart.items() if interval is not None and interval[0] > KEEPS]
        report.aims(
            [
                (
                    "a codec of at most half the bytes keeps accuracy",
                    ", ".join(keeping) or "none",
                    bool(keeping),
                )
            ]
        )
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
