"""How near is the predicted peak of a step to what the allocator counts?

    python -m engine.benchmarks.memory_peaks

Each model trains a few steps in this process, on the host, under keep, recompute and swap of all its layers, and under
what three budgets choose: a quarter, a half and three quarters of the way from what is least possible to what keeps
everything. The last step's peak is counted by PyTorch's allocator. Beside it is what the same steps on tensors without
values predict (`engine/liveness/`), and how long that took, with the choosing where a budget chose. The six models take
20 to 40 minutes.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.axes.memory import ACTIVATIONS
from engine.benchmarks.harness.report import Report, arguments
from engine.inputs.task import classification
from engine.liveness.fitting import Fitter, Wanted
from engine.liveness.measured import RealSteps, measured_peak
from engine.liveness.peak import peak_of
from engine.liveness.training import Training
from engine.memory.blocks import Asked
from engine.models import registry
from engine.models.describe import describe
from engine.plan.description import ModelDescription
from engine.plan.mechanism_options import options_of
from engine.plan.peak import PARTS, Peak
from engine.plan.updates import OptimizerSpec

MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "resnet50": ({}, 16),
    "inception-v3": ({}, 8),
    "vgg19": ({}, 8),
    "lstm-lm": ({}, 16),
    "attention-nmt": ({}, 8),
    "gpt": ({}, 1),
}
"""Options, and samples of a step."""
QUICK: dict[str, tuple[dict[str, Any], int]] = {
    "resnet-digits": ({}, 32),
    "vgg-small": ({}, 16),
    "lstm-lm": ({"vocabulary": 500, "hidden": 64, "layers": 2}, 16),
    "attention-nmt": ({"vocabulary": 500, "hidden": 64, "layers": 2}, 8),
    "gpt": ({"vocabulary": 500, "hidden": 64, "layers": 3, "heads": 4}, 2),
}
MECHANISMS = tuple(row.name for row in ACTIVATIONS if "sequences" not in row.traits)
SHARES = (0.75, 0.5, 0.25)
"""Of the way from the least that is possible to what keeps everything."""
OPTIMIZER = OptimizerSpec(name="sgd", learning_rate=0.01, options={"momentum": 0.9})
AIM = 0.03
COLUMNS = ["model", "samples", "activations", "measured", "predicted", "error", *PARTS, "took"]
MIB = 2**20


def batch(name: str, samples: int) -> tuple[Tensor, Tensor]:
    """What a model of the catalogue trains on, without values on `meta`; zeros are samples as good as any."""
    entry = registry.model(name)
    inputs = torch.zeros(samples, *entry.input_shape, dtype=getattr(torch, entry.input_dtype))
    return inputs, torch.zeros(samples, *entry.target_shape, dtype=torch.int64)


def training_of(
    name: str, samples: int, described: ModelDescription, options: dict[str, Any] | None = None
) -> Training:
    """A model of the catalogue and a batch of it."""
    inputs, targets = batch(name, samples)
    return Training(
        model=registry.build(name, options or {}),
        described=described,
        inputs=inputs,
        targets=targets,
        task=classification,
    )


def asked(described: ModelDescription, mechanism: str) -> dict[str, Asked]:
    """For all layers of a model."""
    if "as-is" in ACTIVATIONS[mechanism].traits:
        return {}
    choice = Asked(mechanism, options_of(ACTIVATIONS[mechanism], {}, "options"))
    return {layer.name: choice for layer in described.layers}


class Way(NamedTuple):
    """One way to train a model, and what is predicted of it."""

    name: str
    choices: Mapping[str, Asked]
    peak: Peak
    took_s: float


def fitter_of(training: Training, described: ModelDescription) -> Fitter:
    """What chooses for budgets, of a model and a batch on `meta`."""
    free = tuple(layer.name for layer in described.layers if layer.trainable_count)
    wanted = Wanted(beside=0, free=free, threads=torch.get_num_threads(), accumulated=False)
    return Fitter(training, {}, partial(peak_of, training, OPTIMIZER), wanted)


def ways(training: Training, described: ModelDescription) -> Iterator[Way]:
    """Of a model and a batch on `meta`."""
    for mechanism in MECHANISMS:
        begun, choices = time.perf_counter(), asked(described, mechanism)
        peak = peak_of(training, OPTIMIZER, choices)
        yield Way(mechanism, choices, peak, time.perf_counter() - begun)
    fitter = fitter_of(training, described)
    kept, least = (peak_of(training, OPTIMIZER, fitter.choices(c)) for c in (fitter.keep, fitter.least()))
    low = max(least.total, least.first)
    for share in SHARES:
        begun, budget = time.perf_counter(), low + round(share * (max(kept.total, kept.first) - low))
        choices = asked_for(fitter, budget)
        peak = peak_of(training, OPTIMIZER, choices)
        yield Way(f"budget {budget / MIB:.1f}", choices, peak, time.perf_counter() - begun)


def asked_for(fitter: Fitter, budget: int) -> dict[str, Asked]:
    """What a budget chooses for the layers that do not keep their activations."""
    return {
        each.layer: Asked(each.activations, options_of(ACTIVATIONS[each.activations], each.options, ""))
        for each in fitter.fit(budget).layers
        if "as-is" not in ACTIVATIONS[each.activations].traits
    }


def measured(
    name: str, options: dict[str, Any], samples: int, choices: Mapping[str, Asked], scratch: str | None
) -> int:
    """The allocator's count of real steps."""
    described = described_as(name, options)
    with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-", dir=scratch) as folder:
        training = training_of(name, samples, described, options)
        found = measured_peak(RealSteps(training, OPTIMIZER, choices, scratch=folder))
    gc.collect()
    return found


def described_as(name: str, options: dict[str, Any]) -> ModelDescription:
    with torch.device("meta"):
        return describe(registry.build(name, options), *batch(name, 2), name)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, *QUICK])
    parser.add_argument(
        "--scratch", help="a folder on a disk for what is swapped; the system's where left out"
    )
    options = parser.parse_args()
    chosen = {**QUICK, **MODELS} if options.models else QUICK if options.quick else MODELS
    chosen = {name: chosen[name] for name in options.models or chosen}
    with Report(
        "memory-peaks",
        "Predicted peaks of memory",
        "How near is the predicted peak of a step to what the allocator counts?",
        options,
    ) as report:
        report.plan(
            [f"{name}: {samples} samples" for name, (_, samples) in chosen.items()],
            minutes=(1 if options.quick else 6) * len(chosen),
        )
        report.method(
            "One process, SGD with momentum, all layers under one mechanism, or as a budget chose; MiB."
            " Measured: the allocator's own count"
            f" of a step's highest moment, with what was there before. {torch.get_num_threads()} threads,"
            f" {torch.backends.cpu.get_cpu_capability()}. Swapped bytes are moved by the thread that computes."
        )
        rows: list[list[Any]] = []
        errors: list[float] = []
        for name, (given, samples) in chosen.items():
            described = described_as(name, given)
            with torch.device("meta"):
                training = training_of(name, samples, described, given)
                found = list(ways(training, described))
            for way in found:
                peak, real = way.peak, measured(name, given, samples, way.choices, options.scratch)
                error = peak.total / real - 1
                errors.append(abs(error))
                parts = {part: size for part, size in peak.parts.items() if size}
                numbers = {"measured": real, "predicted": parts, "first": peak.first, "took_s": way.took_s}
                report.raw([{"model": name, "samples": samples, "way": way.name, **numbers}])
                rows.append(
                    [
                        name,
                        samples,
                        way.name,
                        f"{real / MIB:.1f}",
                        f"{peak.total / MIB:.1f}",
                        f"{100 * error:+.2f} %",
                        *(f"{peak.parts[part] / MIB:.1f}" for part in PARTS),
                        f"{way.took_s:.1f} s",
                    ]
                )
                report.table("MiB of a step's highest moment", COLUMNS, rows)
        report.aims([(f"every error is at most {AIM:.0%}", f"{max(errors):.2%}", max(errors) <= AIM)])
    raise SystemExit(report.exit_code())


if __name__ == "__main__":
    main()
