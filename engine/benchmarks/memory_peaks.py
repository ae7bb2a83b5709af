"""How near is the predicted peak of a step to what the allocator counts?

    python -m engine.benchmarks.memory_peaks

Each model trains a few steps in this process, on the host, under keep, recompute and swap of all its layers; the last
step's peak is counted by PyTorch's allocator. Beside it is what the same steps on tensors without values predict
(`engine/liveness/`), and how long that took.
"""

from __future__ import annotations

import gc
import tempfile
import time
from typing import Any

import torch
from torch import Tensor

from engine.axes.memory import ACTIVATIONS
from engine.benchmarks.harness.report import Report, arguments
from engine.inputs.task import classification
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
}
"""Options, and samples of a step."""
QUICK: dict[str, tuple[dict[str, Any], int]] = {
    "resnet-digits": ({}, 32),
    "vgg-small": ({}, 16),
    "lstm-lm": ({"vocabulary": 500, "hidden": 64, "layers": 2}, 16),
}
MECHANISMS = tuple(row.name for row in ACTIVATIONS if "sequences" not in row.traits)
OPTIMIZER = OptimizerSpec(name="sgd", learning_rate=0.01, options={"momentum": 0.9})
AIM = 0.03
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


def predicted(
    name: str, options: dict[str, Any], samples: int, mechanism: str
) -> tuple[Peak, ModelDescription]:
    with torch.device("meta"):
        found = describe(registry.build(name, options), *batch(name, 2), name)
        training = training_of(name, samples, found, options)
    return peak_of(training, OPTIMIZER, asked(found, mechanism)), found


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
            [f"{name}: {samples} samples" for name, (_, samples) in chosen.items()], minutes=4 * len(chosen)
        )
        report.method(
            "One process, SGD with momentum, all layers under one mechanism; MiB. Measured: the allocator's own count"
            f" of a step's highest moment, with what was there before. {torch.get_num_threads()} threads,"
            f" {torch.backends.cpu.get_cpu_capability()}. Swapped bytes are moved by the thread that computes."
        )
        rows: list[list[Any]] = []
        errors: list[float] = []
        for name, (given, samples) in chosen.items():
            for mechanism in MECHANISMS:
                begun = time.perf_counter()
                peak, described = predicted(name, given, samples, mechanism)
                took = time.perf_counter() - begun
                with tempfile.TemporaryDirectory(
                    prefix="trainyard-benchmark-", dir=options.scratch
                ) as scratch:
                    measured = measured_peak(
                        RealSteps(
                            training_of(name, samples, described, given),
                            OPTIMIZER,
                            asked(described, mechanism),
                            scratch=scratch,
                        )
                    )
                gc.collect()
                errors.append(abs(peak.total / measured - 1))
                parts = {part: size for part, size in peak.parts.items() if size}
                found = {"measured": measured, "predicted": parts, "first": peak.first, "took_s": took}
                report.raw([{"model": name, "samples": samples, "mechanism": mechanism, **found}])
                rows.append(
                    [
                        name,
                        samples,
                        mechanism,
                        f"{measured / MIB:.1f}",
                        f"{peak.total / MIB:.1f}",
                        f"{100 * (peak.total / measured - 1):+.2f} %",
                        *(f"{peak.parts[part] / MIB:.1f}" for part in PARTS),
                        f"{took:.1f} s",
                    ]
                )
                columns = [
                    "model",
                    "samples",
                    "activations",
                    "measured",
                    "predicted",
                    "error",
                    *PARTS,
                    "took",
                ]
                report.table("MiB of a step's highest moment", columns, rows)
        report.aims([(f"every error is at most {AIM:.0%}", f"{max(errors):.2%}", max(errors) <= AIM)])
    raise SystemExit(report.exit_code())


if __name__ == "__main__":
    main()
