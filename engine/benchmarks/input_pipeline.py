"""What does it cost to prepare the data in the wrong place, and what does real data cost over synthetic?

    python -m engine.benchmarks.input_pipeline

Papers 002's first trick (section 3.1, Table 2: T_r and T_p) is to place preprocessing where it does not hold up
training; papers 000 (Tables 2 and 3) time an iteration on fake and on real data. Here real workers train on image files
that this benchmark makes, in the formats that the data sets read: JPEG files in folders, decoded and scaled in every
step, and CIFAR-10's batch files, shifted and flipped. Preprocessing is placed

    badly   in the thread that trains, when a batch is needed (input.prefetch 0)
    well    in a thread beside it, in processes, or on the device that trains

and synthetic data of the same shape, prepared in a thread beside it, stand for fake data. On the CPU the device that
trains is the processor whose thread trains: there `device` is badly placed by definition, and is shown as such.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.benchmarks.harness.jobs import Measured, bench_job, interleaved
from engine.benchmarks.harness.pairs import METHOD, ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.models.registry import model as catalogue_model
from engine.plan.inputs import Input
from engine.plan.job import JobSpec, SourceSpec

BADLY = "training thread"
THREAD = "thread"
PROCESSES = "processes"
DEVICE = "device"
FAKE = "synthetic"
CLASSES = 10
IMAGES = {"train": 32, "test": 1}
"""Files of each class."""
COLUMNS = (
    "model",
    "workers",
    "data",
    "prepared in",
    "step, ms",
    "waiting for input",
    "over synthetic",
    "gain",
)


def places(processes: int) -> dict[str, Input]:
    """Where data are prepared, by name."""
    return {
        BADLY: Input(prefetch=0),
        THREAD: Input(prefetch=2),
        PROCESSES: Input(where="processes", processes=processes, prefetch=2),
        DEVICE: Input(where="device", prefetch=2),
    }


def write_folders(folder: Path, width: int, height: int) -> None:
    """JPEG files of smooth noise, as large as photographs of that many pixels are when they are packed."""
    from PIL import Image  # noqa: PLC0415 - an extra

    draw = np.random.default_rng(0)
    for part, count in IMAGES.items():
        for label in range(CLASSES):
            (folder / part / f"class-{label}").mkdir(parents=True)
            for number in range(count):
                coarse = draw.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
                image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
                image.save(folder / part / f"class-{label}" / f"{number}.jpg", quality=90)


def write_cifar10(folder: Path, images: int) -> None:
    """The binary version of the batch files, of noise; so many images in each."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        labels = np.arange(images, dtype=np.uint8)[:, None] % CLASSES
        pixels = draw.integers(0, 256, (images, 3072), dtype=np.uint8)
        (folder / f"{name}.bin").write_bytes(np.hstack([labels, pixels]).tobytes())


def jobs(model: str, data: SourceSpec, options: Any, workers: int) -> dict[str, JobSpec]:
    """By name: on synthetic data, and on `data` prepared in each place."""
    strategy = "single" if workers == 1 else options.strategy
    fake = bench_job(
        model,
        strategy,
        workers=workers,
        batch=options.batch,
        steps=options.steps,
        model_options={"classes": CLASSES},
    )
    fake = replace(fake, input=Input(prefetch=2))
    real = replace(fake, data=data)
    return {FAKE: fake} | {
        name: replace(real, input=given) for name, given in places(options.processes).items()
    }


def rows_of(labels: Sequence[Any], found: dict[str, list[Measured]]) -> list[list[Any]]:
    """The table's rows of one model, number of workers and data."""
    steps = {name: [one.iteration_ns for one in each] for name, each in found.items()}
    return [
        [
            *labels,
            name,
            statistics.median(steps[name]) / 1e6,
            f"{statistics.median(one.input_ns / one.iteration_ns for one in found[name]):.1%}",
            "" if name == FAKE else str(ratio(steps[name], steps[FAKE])),
            "" if name in (FAKE, BADLY) else str(ratio(steps[BADLY], steps[name])),
        ]
        for name in found
    ]


def main() -> None:
    parser = arguments(__doc__)
    add = parser.add_argument
    add("--models", nargs="+", default=["resnet32", "alexnet"])
    add("--workers", nargs="+", type=int, default=[1, 2])
    add("--strategy", default="ring-allreduce-overlap", help="of several workers")
    add("--batch", type=int, default=16, help="samples of each worker")
    add("--processes", type=int, default=2, help="of each worker")
    add("--steps", type=int, default=30)
    add("--rounds", type=int, default=6)
    add("--pixels", type=int, nargs=2, default=[500, 375], help="width and height of the image files")
    options = parser.parse_args()
    if options.quick:
        options.models, options.workers, options.steps, options.rounds = ["resnet32"], [1], 16, 2
        options.pixels = [320, 240]
    with (
        tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as directory,
        Report(
            "input-pipeline",
            "Where the data are prepared",
            "What does preprocessing cost in each place, and what do real data cost over synthetic?",
            options,
        ) as report,
    ):
        report.plan(
            [
                f"{model}, {workers} worker(s): {options.rounds} rounds of {len(places(1)) + 1} runs for each data set"
                for model in options.models
                for workers in options.workers
            ],
            minutes=len(options.models) * len(options.workers) * options.rounds * 2.0,
        )
        report.method(
            f"Real workers, one compute thread each, batch {options.batch} each, {options.steps} steps of which the "
            f"first are left out, telemetry included. Image folders: JPEG files of {options.pixels[0]}x"
            f"{options.pixels[1]} pixels, {IMAGES['train'] * CLASSES} of them, decoded and scaled to the model's size; "
            f"cifar10 (models of 32x32): shifted by up to 4 pixels and flipped. {options.processes} processes per "
            "worker; two batches ahead, but in the training thread. Over synthetic: T_real / T_fake; gain: the step "
            "with preprocessing in the training thread over the step with it here (papers 002: T_r / T_p). Waiting for "
            f"input: its share of the step, mean over workers. {METHOD}"
        )
        folders, cifar10 = Path(directory, "folders"), Path(directory, "cifar10")
        write_folders(folders, *options.pixels)
        write_cifar10(cifar10, images=200)
        rows: list[list[Any]] = []
        for model in options.models:
            size = catalogue_model(model).input_shape[-1]
            sources = {
                "image-folder": {"directory": str(folders), "size": size, "flip": True},
                "cifar10": {"directory": str(cifar10), "shift": 4, "flip": True},
            }
            for name, settings in sources.items():
                if name == "cifar10" and size != 32:
                    continue
                for workers in options.workers:
                    labels = {"model": model, "workers": workers, "data": name}
                    named = jobs(model, SourceSpec(name=name, options=settings), options, workers)
                    print(f"{model}, {workers} worker(s), {name}", flush=True)
                    found = interleaved(named, options.rounds, report, labels, name_as="place")
                    rows += rows_of(list(labels.values()), found)
                    report.table("A step", COLUMNS, rows)


if __name__ == "__main__":
    main()
