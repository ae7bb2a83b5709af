"""P3's figure 11: P3 against Deep Gradient Compression, accuracy of five settings each.

    python -m engine.experiments.p3_figure_11                        # the digits, enlarged: about 40 minutes
    python -m engine.experiments.p3_figure_11 --settings 1,2         # a piece of it
    python -m engine.experiments.p3_figure_11 --add OTHER.json ...   # what other pieces found, in one figure
    python -m engine.experiments.p3_figure_11 --directory CIFAR      # CIFAR-10 from its files: days on two cores

`--quick` is one setting for two epochs. Beside the usual result it writes `.svg`: the bands between the worst and the
best of the settings over epochs, and final accuracy against time.

The paper trains ResNet-110 on CIFAR-10 for 160 epochs on four machines, with five hyper-parameter settings that it does
not name; DGC is on its baseline, a KVStore-like server. Here it is a residual network of 8 layers for images of 32x32
(`--blocks 18` is ResNet-110) on four workers of one machine, whose links are kept to a rate in software. Where nobody
names CIFAR-10's files, the images are scikit-learn's 8x8 digits, enlarged to 32x32 by the model's first layer: a far
easier task of 360 test samples, of which one is 0.28 points.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engine
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.trained import Look, train
from engine.experiments import curves
from engine.experiments.p3_cluster import RESULTS
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.telemetry.means import interval_of_mean

P3, DGC = "p3", "dgc"
WAYS = (P3, DGC)
WORKERS = 4
RATE = "100Mbit"
EPOCHS = 20.0
"""Of 160: the digits are learned in a few."""
MOMENTUM = 0.9
WARMUP = 0.2
"""Share of the steps in which DGC sends more and more sparsely; its authors take 4 epochs of 164 for CIFAR."""
PAPER_DROP = 0.4
"""Points of accuracy that DGC loses on average (section 5.5)."""
START_S = 12.0
"""Of one run, beside its steps: four workers on two cores."""
SAMPLE_S = 0.008
"""About how long a sample takes with one block a stage, on two cores."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Hyper-parameters: the paper has five, and does not say which."""

    learning_rate: float
    global_batch: int = 64
    weight_decay: float = 1e-4

    @property
    def text(self) -> str:
        return f"rate {self.learning_rate:g}, batch {self.global_batch}, decay {self.weight_decay:g}"


SETTINGS = (
    Setting(learning_rate=0.05),
    Setting(learning_rate=0.025),
    Setting(learning_rate=0.1),
    Setting(learning_rate=0.05, global_batch=32),
    Setting(learning_rate=0.05, weight_decay=5e-4),
)
COLUMNS = ("setting", "p3, %", "dgc, %", "p3 over dgc, points", "p3, s", "dgc, s", "p3 over dgc in time")
PAPER = f"""\
The paper: "the final accuracy obtained with P3 is always better than DGC", by {PAPER_DROP} points on average, on a task
that takes 160 epochs. It names neither its five settings nor DGC's, and no times. What follows from other authors'
words stands in `engine/codec/dgc.py`; DGC's own paper reports no loss."""


def job(way: str, setting: Setting, options: argparse.Namespace) -> JobSpec:
    """One training."""
    dgc = way == DGC
    epochs = options.epochs
    strategy: dict[str, Any] = {"name": "p3", "options": {}}
    if dgc:  # the momentum is the codec's
        steps = epochs * options.samples / setting.global_batch
        of_codec = {"momentum": MOMENTUM, "warmup": round(WARMUP * steps)}
        strategy = {"name": "parameter-server", "options": {"codec": "dgc", "codec_options": of_codec}}
    momentum = {} if dgc else {"momentum": MOMENTUM}
    model: dict[str, Any] = {
        "entrypoint": "engine.experiments.enlarged:resnet",
        "directory": str(Path(engine.__file__).resolve().parents[1]),
        "options": {"blocks": options.blocks},
    }
    data: dict[str, Any] = {"name": "digits"}
    if options.directory:
        model = {"name": "resnet32", "options": {"blocks": options.blocks}}
        data = {"name": "cifar10", "options": {"directory": options.directory}}
    return from_plain(
        JobSpec,
        {
            "name": f"figure 11, {way}",
            "model": model,
            "data": data,
            "strategy": strategy,
            "cluster": {"workers": WORKERS, "device": "cpu", "threads": 1},
            "network": {"rate": RATE},
            "training": {"epochs": epochs, "global_batch": setting.global_batch, "seed": 1},
            "optimizer": {
                "name": "sgd",
                "learning_rate": setting.learning_rate,
                "options": {"weight_decay": setting.weight_decay, **momentum},
            },
            "schedule": {"name": "cosine"},
            "evaluation": {"every_epochs": 1, "at_end": True},
        },
    )


Found = Mapping[tuple[str, int], Sequence[Look]]
"""By p3 or DGC, and setting (1 to 5): its looks in the order of time."""


def rows(found: Found) -> list[list[Any]]:
    """One line for each setting of which both are there."""
    lines = []
    for number in settings_of(found):
        ours, theirs = (found[way, number][-1] for way in WAYS)
        lines.append(
            [
                f"{number}: {SETTINGS[number - 1].text}",
                f"{ours.accuracy:.2f}",
                f"{theirs.accuracy:.2f}",
                f"{ours.accuracy - theirs.accuracy:+.2f}",
                f"{ours.time_s:.0f}",
                f"{theirs.time_s:.0f}",
                f"{ours.time_s / theirs.time_s:.2f}",
            ]
        )
    return lines


def settings_of(found: Found) -> list[int]:
    """Those of which both are there."""
    return [n for n in range(1, len(SETTINGS) + 1) if all((way, n) in found for way in WAYS)]


def beside(found: Found) -> list[list[str]]:
    """The paper's claims, and what is seen."""
    apart = [found[P3, n][-1].accuracy - found[DGC, n][-1].accuracy for n in settings_of(found)]
    if not apart:
        return []
    better, equal = sum(gap > 0 for gap in apart), sum(gap == 0 for gap in apart)
    interval = interval_of_mean(apart)
    sure = (
        f" ({interval[0]:+.2f} to {interval[1]:+.2f})"
        if interval is not None
        else ", of too few for an interval"
    )
    longer = statistics.median(found[P3, n][-1].time_s / found[DGC, n][-1].time_s for n in settings_of(found))
    return [
        [
            "settings in which P3's final accuracy is better",
            "5 of 5",
            f"{better} of {len(apart)}, {equal} equal",
        ],
        ["DGC's mean drop, points", f"{PAPER_DROP}", f"{statistics.mean(apart):+.2f}{sure}"],
        ["P3's time over DGC's", "not said", f"{longer:.2f} at {RATE}/s"],
    ]


def looks_of(raw: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], list[Look]]:
    """What a result's raw rows say."""
    found: dict[tuple[str, int], list[Look]] = defaultdict(list)
    for row in raw:
        look = Look(time_s=row["time_s"], samples=row["samples"], accuracy=row["accuracy"])
        found[row["way"], row["setting"]].append(look)
    return dict(found)


def drawn(found: Found, what: str) -> str:
    """The figure: over epochs the band between the worst and the best setting, and the ends against time."""
    bands, ends = {}, {}
    for way in WAYS:
        runs = [found[way, n] for n in settings_of(found)]
        looks = min(map(len, runs))
        bands[way] = [[run[at].accuracy for run in runs] for at in range(looks)]
        ends[way] = [(run[-1].time_s, run[-1].accuracy) for run in runs]
    several = f"{len(runs)} setting{'s' if len(runs) > 1 else ''}"
    return curves.bands_and_ends(f"P3 and DGC, {several}: {what}", bands, ends)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    made.add_argument("--settings", default="1,2,3,4,5", help="numbers, separated by commas")
    made.add_argument("--add", type=Path, nargs="*", default=[], help="results (JSON) of other pieces")
    made.add_argument("--directory", default="", help="of CIFAR-10's batch files")
    made.add_argument("--blocks", type=int, default=1, help="of each stage: 18 is ResNet-110")
    made.add_argument("--epochs", type=float, default=EPOCHS)
    return made


def settled(options: argparse.Namespace) -> argparse.Namespace:
    """With what follows from them."""
    options.numbers = [int(number) for number in options.settings.split(",") if number]
    if wrong := [number for number in options.numbers if not 1 <= number <= len(SETTINGS)]:
        raise SystemExit(f"--settings: there are 1 to {len(SETTINGS)}, not {wrong}")
    options.samples = 50_000 if options.directory else 1_437
    if options.quick:
        options.numbers, options.epochs = [1], 2.0
    return options


def main() -> None:
    """Train the chosen settings, and write table and figure of these and what was added."""
    options = settled(parser().parse_args())
    what = "CIFAR-10" if options.directory else "digits, enlarged to 32x32"
    with Report(
        "p3_figure_11",
        "P3, figure 11: P3 against DGC",
        "Is P3's final accuracy always better than DGC's, and what does that take?",
        options,
    ) as report:
        each_s = START_S + options.epochs * options.samples * SAMPLE_S * options.blocks
        report.plan(
            [f"{number}: {SETTINGS[number - 1].text}, with p3 and with DGC" for number in options.numbers],
            len(options.numbers) * len(WAYS) * each_s / 60,
        )
        report.method(
            f"{what}; ResNet of {6 * options.blocks + 2} layers, {WORKERS} workers with a server beside each, links of"
            f" {RATE}/s kept in software, {options.epochs:g} epochs, cosine schedule, one seed. DGC: ratio 0.001, its"
            f" momentum of {MOMENTUM} in the codec, a warm-up of {WARMUP:.0%} of the steps, on parameter-server;"
            " p3: SGD with the same momentum. Time is from the first step to the last evaluation, evaluations included."
        )
        found = looks_of(row for path in options.add for row in json.loads(path.read_text("utf-8"))["raw"])
        for number in options.numbers:
            for way in WAYS:
                looks = found[way, number] = train(job(way, SETTINGS[number - 1], options))
                report.raw({"way": way, "setting": number, **asdict(look)} for look in looks)
                print(
                    f"  {number} {way}: {looks[-1].accuracy:.2f} % after {looks[-1].time_s:.0f} s", flush=True
                )
        report.table("Final accuracy and time", COLUMNS, rows(found))
        report.table("Beside the paper", ("what", "paper", "here"), beside(found))
        report.note(PAPER)
    report.path.with_suffix(".svg").write_text(drawn(found, what), encoding="utf-8")


if __name__ == "__main__":
    main()
