"""PAI's table 1 (papers 002): the largest batch in 16 GiB, before and after optimization of memory.

Run: `python -m engine.experiments.pai_table_1` (about 15 minutes on one core; `--quick` about 2).

The paper's models at its sizes (appendix A.1): ResNet-50 and Inception-v3 under swap, a translation network and a
language model under recomputation. Here each model is run under every way to treat activations, predicted on tensors
without values (`engine/liveness/`): the largest batch whose step fits, all of the worker's memory counted. Beside them
are PyTorch's own ways, predicted under the same count: `save_on_cpu` around the forward pass, and
`checkpoint_sequential` over the modules that follow one another.

Slow-downs are predicted for the paper's device from published rates: a P100 at half of its peak, and 12 GB/s each way
over PCIe. What is computed again takes its forward once more (`through-time`: as often as its dynamic program says);
copies of `swap` run beside the block next to theirs, those of `save_on_cpu` beside nothing. Beside each of PyTorch's
ways stands the largest batch that ours have at its slow-down: a mixture of keep, swap and recompute.

Not the paper's: it measured TensorFlow and cuDNN of 2017. Counted here is what PyTorch holds on the host, whose kernels
need other scratch memory. The paper's translation network has two attentions, ours one; its Inception-v3 may have
had the auxiliary classifier, ours has none.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint_sequential

from engine.axes.memory import ACTIVATIONS
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.memory_peaks import OPTIMIZER, batch, training_of
from engine.budget.blocks import Action
from engine.budget.frontier import Frontier
from engine.budget.largest import largest
from engine.budget.prediction import copy_ns, predict
from engine.budget.sequence import Sequence
from engine.experiments.p3_cluster import RESULTS
from engine.inputs.batch import Tensors
from engine.liveness.fitting import Blocks, Wanted, late
from engine.liveness.peak import peak_of
from engine.memory.blocks import Asked
from engine.models import registry
from engine.models.describe import describe
from engine.plan.description import ModelDescription
from engine.plan.largest import CUT
from engine.plan.mechanism_options import options_of
from engine.plan.peak import Peak
from engine.profile import derive

ROOM = 16 * 2**30
EFFICIENCY = 0.5
LINK = 12 * 10**9
"""Bytes a second, each way."""
MOST = 2**20
"""Samples that are counted."""
GIB = 2**30
KEEP, SWAP, RECOMPUTE, CUTTING = "keep", "swap", "recompute", "through-time, recompute"
LATE = "swap, ahead: 0"
"""Nothing is on its way back while something else is used."""
ON_CPU, SEQUENTIAL = PEERS = ("save_on_cpu", "checkpoint_sequential")
PAPER: dict[str, tuple[str, int, int]] = {
    "resnet50": (SWAP, 144, 664),
    "inception-v3": (SWAP, 208, 548),
    "attention-nmt": (CUTTING, 11, 290),
    "lstm-lm": (CUTTING, 750, 1500),
}
"""Model -> (the way that is nearest to the paper's, B_base, B_opt)."""
COLUMNS = (
    "model",
    "way",
    "largest batch",
    "over keep",
    "peak, GiB",
    "slow-down",
    "ours at that",
    "limit",
    "paper",
    "looked for",
)


@dataclass(kw_only=True)
class SaveOnCpu:
    """`torch.autograd.graph.save_on_cpu`: each saved tensor leaves by itself, and each use brings a copy of its own."""

    moved: int = 0
    """Bytes that left in the last pass."""

    def _pack(self, tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
        self.moved += tensor.nbytes
        return tensor.size(), tensor.dtype

    def _unpack(self, saved: tuple[torch.Size, torch.dtype]) -> Tensor:
        shape, dtype = saved
        return torch.empty(shape, dtype=dtype, device="meta")

    @contextmanager
    def training(self, inputs: Tensors) -> Iterator[None]:
        self.moved = 0
        with saved_tensors_hooks(self._pack, self._unpack):
            yield

    def backward(self) -> Any:
        return nullcontext()

    def close(self) -> None: ...


def in_segments(name: str, model: nn.Module) -> int:
    """Let the model run as `checkpoint_sequential` of as many segments as the square root of its modules. Answers with
    their number; 0 where they do not follow one another."""
    functions: list[Any] = list(model.children())
    if name == "lstm-lm":
        lm: Any = model
        functions = [
            lm.embedding,
            *(lambda states, layer=layer: layer(lm.dropout(states))[0] for layer in lm.layers),
            lambda states: lm.output(lm.dropout(states)).transpose(1, 2),
        ]
    elif not isinstance(model, nn.Sequential):
        return 0
    segments = round(math.sqrt(len(functions)))

    def forward(_: nn.Module, inputs: Tensor) -> Any:
        return checkpoint_sequential(functions, segments, inputs, use_reentrant=False)

    model.forward = MethodType(forward, model)
    return segments


class Subject:
    """One model."""

    def __init__(self, name: str) -> None:
        self.name = name
        with torch.device("meta"):
            self.described: ModelDescription = describe(registry.build(name), *batch(name, 2), name)
        self._trained = [x.name for x in self.described.layers if any(p.trainable for p in x.parameters)]
        self._cut = [x.name for x in self.described.layers if x.kind in CUT]

    def ways(self) -> list[str]:
        found = [KEEP, SWAP, LATE, RECOMPUTE]
        return [*found, *([CUTTING] if self._cut else []), ON_CPU, SEQUENTIAL]

    def choices(self, way: str) -> dict[str, Asked]:
        """What the layers ask for."""

        def asked(mechanism: str, **options: int) -> Asked:
            return Asked(mechanism, options_of(ACTIVATIONS[mechanism], options, "options"))

        if way == CUTTING:
            return {
                layer: asked("through-time" if layer in self._cut else RECOMPUTE) for layer in self._trained
            }
        if way == LATE:
            return dict.fromkeys(self._trained, asked(SWAP, ahead=0))
        return dict.fromkeys(self._trained, asked(way)) if way in (SWAP, RECOMPUTE) else {}

    def model(self, way: str) -> nn.Module | None:
        """Without values; None where the way is none for it."""
        with torch.device("meta"):
            model = registry.build(self.name)
        return None if way == SEQUENTIAL and not in_segments(self.name, model) else model

    def peak(self, way: str, samples: int, beside: SaveOnCpu) -> Peak:
        model = self.model(way)
        assert model is not None
        with torch.device("meta"):
            training = replace(training_of(self.name, samples, self.described), model=model)
        return peak_of(
            training,
            OPTIMIZER,
            self.choices(way),
            memory=beside if way == ON_CPU else None,
        )

    def blocks(self, samples: int) -> Blocks:
        """With the times of the paper's device."""
        profile = derive(self.described, "p100", EFFICIENCY, samples)
        wanted = Wanted(
            beside=0,
            free=tuple(self._trained),
            threads=1,
            accumulated=False,
            times={each.layer: [each.forward_s, each.backward_s] for each in profile.layers},
        )
        with torch.device("meta"):
            training = training_of(self.name, samples, self.described)
        return Blocks(training, {}, wanted)

    def at_slow_down(self, most: float) -> int:
        """The largest batch of a mixture of ours (keep, swap and recompute, by block) whose passes take at most so much
        longer, as a part of all kept: of each batch those that may hold the least are looked at."""

        def held(samples: int) -> int:
            blocks = self.blocks(samples)
            limit = (1 + most) * sum(block.forward_ns + block.backward_ns for block in blocks.costs)
            frontier = Frontier(blocks.costs, swap_bytes_per_second=LINK)
            least = next(peak for peak, time_ns in frontier.points if time_ns <= limit)
            mixed = frontier.choose(least).chosen
            alike = [blocks.alike(action) for action in (Action.SWAP, Action.RECOMPUTE)]
            chosen = [mixed, late(mixed), *alike, late(alike[0]), blocks.in_groups()]
            with torch.device("meta"):
                training = training_of(self.name, samples, self.described)
            peaks = [
                peak_of(training, OPTIMIZER, blocks.choices(each))
                for each in dict.fromkeys(chosen)
                if predict(blocks.costs, each, swap_bytes_per_second=LINK).time_ns <= limit
            ]
            return min(max(peak.total, peak.first) for peak in peaks)

        return largest(held, ROOM, most=MOST)

    def slow_down(self, way: str, samples: int, moved: int) -> float:
        """How much longer a pass takes than with everything kept, as a part of that."""
        blocks = self.blocks(samples)
        kept = sum(block.forward_ns + block.backward_ns for block in blocks.costs)
        if way in (SWAP, LATE, RECOMPUTE):
            chosen = blocks.alike(Action.RECOMPUTE if way == RECOMPUTE else Action.SWAP)
            chosen = late(chosen) if way == LATE else chosen
            return predict(blocks.costs, chosen, swap_bytes_per_second=LINK).time_ns / kept - 1
        if way == ON_CPU:
            return 2 * copy_ns(moved, LINK) / kept
        again = dict.fromkeys(self._trained, 1.0)
        if way == CUTTING:
            steps = registry.model(self.name).input_shape[-1]
            options = options_of(ACTIVATIONS["through-time"], {}, "options")
            runs = Sequence(steps, options.slots, internal=options.piece_slots).cost()
            again |= dict.fromkeys(self._cut, runs / steps - 1)
        elif way == SEQUENTIAL:
            with torch.device("meta"):
                segments = in_segments(self.name, registry.build(self.name))
            last = round(len(self._trained) / segments)  # about: the last segment is not run again
            again |= dict.fromkeys(self._trained[-last:], 0.0)
        else:
            return 0.0
        return sum(again[block.name] * block.forward_ns for block in blocks.costs) / kept


def main() -> None:
    """Predict and write the result."""
    options = parser().parse_args()
    names = options.models or (["resnet50"] if options.quick else list(PAPER))
    torch.set_num_threads(1)
    with Report(
        "pai_table_1",
        "PAI, table 1: the largest batch in 16 GiB",
        "How large a batch fits a device of 16 GiB before and after optimization of memory, and what does it cost?",
        options,
    ) as report:
        report.plan([f"{name}: every way" for name in names], 4 * len(names))
        report.method(
            f"float32, {OPTIMIZER.name} with momentum {OPTIMIZER.options['momentum']}, one worker, one pass a step."
            " Largest batch: its predicted peak is at most 16 GiB, also in the first steps, in which mechanisms learn,"
            " and that of one sample more is not. Nothing is taken off for a device's context."
            " Ours at that: the largest batch of a mixture of ours that makes a pass no slower than the peer does."
            f" Times: a P100 at {EFFICIENCY:.0%} of its peak, copies of {LINK / 1e9:g} GB/s each way."
            f" {torch.get_num_threads()} thread, {torch.backends.cpu.get_cpu_capability()}."
        )
        rows: list[list[Any]] = []
        best: dict[str, int] = {}
        for name in names:
            subject, kept = Subject(name), 0
            for way in subject.ways():
                if subject.model(way) is None:
                    rows.append([name, way, *["-"] * 5, "its modules do not follow one another", "", ""])
                    continue
                found = look_for(subject, way)
                if way in PEERS:
                    found["ours"] = subject.at_slow_down(found["slow_down"])
                report.raw([found])
                samples = found["samples"]
                kept = samples if way == KEEP else kept
                if way not in PEERS:
                    best[name] = max(best.get(name, 0), samples)
                ours, base, optimized = PAPER[name]
                rows.append(
                    [
                        name,
                        way,
                        samples,
                        f"{samples / kept:.2f}",
                        f"{found['peak'] / GIB:.2f}",
                        f"{100 * found['slow_down']:.0f} %",
                        found.get("ours", ""),
                        found["limit"],
                        base if way == KEEP else optimized if way == ours else "",
                        f"{found['took_s']:.0f} s",
                    ]
                )
                report.table("Samples of the largest batch", COLUMNS, rows)
        report.aims(
            [
                (f"{name}: at least the paper's {PAPER[name][2]}", best[name], best[name] >= PAPER[name][2])
                for name in names
            ]
        )
    raise SystemExit(report.exit_code())


def look_for(subject: Subject, way: str) -> dict[str, Any]:
    """The largest batch of one model under one way, as the result has it."""
    begun, looked, beside = time.perf_counter(), dict[int, Peak](), SaveOnCpu()

    def held(samples: int) -> int:
        looked[samples] = peak = subject.peak(way, samples, beside)
        return max(peak.total, peak.first)

    samples = largest(held, ROOM, most=MOST)
    took = time.perf_counter() - begun
    held(samples)  # again, for the bytes that are moved then
    peak, over = looked[samples], looked[samples + 1]
    where = f" at {over.layer}" if over.layer else ""
    return {
        "model": subject.name,
        "way": way,
        "samples": samples,
        "peak": max(peak.total, peak.first),
        "over": max(over.total, over.first),
        "limit": f"{over.when}{where}" if over.total > ROOM else "the first steps",
        "slow_down": subject.slow_down(way, samples, beside.moved),
        "took_s": took,
    }


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    made.add_argument("--models", nargs="+", choices=list(PAPER))
    return made


if __name__ == "__main__":
    main()
