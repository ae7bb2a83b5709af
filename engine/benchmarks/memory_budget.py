"""How much time does less memory cost: by a budget, by one mechanism for all layers, and by PyTorch's own ways?

    python -m engine.benchmarks.memory_budget

Each model trains in this process, on the host, each way. A step's peak is what the allocator counts of it. Steps of all
ways run in turns, in this process, and each is compared with that of the same round that keeps everything under the
same loop: ours with ours, PyTorch's with a plain one. Peers: `checkpoint_sequential` with two segments, with the square
root of the modules, and with as many as there are modules, where autograd lets it (not where a module writes to what
the one before it has answered); hooks on all saved tensors that write each to a file and read it back, which is
`save_on_cpu` for a model that is on the host already; and `activation_memory_budget`, by which the partitioner of
compiled models keeps a share of what it would save, beside a compiled loop that keeps all of it. What is compiled is
run by PyTorch's own kernels (the backend `aot_eager_decomp_partition`), as everything else here.
"""

from __future__ import annotations

import gc
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._functorch.config as partitioner
from torch import Tensor, nn
from torch._dynamo import lookup_backend
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter
from torch.utils.checkpoint import checkpoint_sequential

from engine.axes.memory import ACTIVATIONS
from engine.axes.memory_options import SwapOptions
from engine.benchmarks.harness.pairs import METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.memory_peaks import (
    MECHANISMS,
    MIB,
    OPTIMIZER,
    asked,
    asked_for,
    batch,
    described_as,
    fitter_of,
    training_of,
)
from engine.errors import UserError
from engine.liveness.measured import RealSteps, peak_bytes, stored
from engine.memory.blocks import Asked
from engine.models import registry
from engine.state.updates import build_optimizer
from engine.tensor_bytes import as_bytes

MODELS: dict[str, int] = {"resnet110": 64, "resnet50": 8, "inception-v3": 8}
"""Samples of a step. Each is an nn.Sequential, as `checkpoint_sequential` wants it, and small enough for a dozen."""
QUICK: dict[str, int] = {"resnet-digits": 256, "vgg-small": 32, "bn-cnn": 512}
BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Of what a step holds that keeps everything; those that are possible."""
WARM_UP = 3
KEEP = next(row.name for row in ACTIVATIONS if "as-is" in row.traits)
PLAIN = "plain loop"
COMPILED = "compiled loop"
_PYTORCHS = "activation_memory_budget"
PYTORCHS = (0.8, 0.6, 0.4, 0.2)
"""Of what it would save: values of that."""


class Way(NamedTuple):
    """One way to train."""

    step: Callable[[], object]
    held: Callable[[], int]
    """Bytes that are there between two steps."""


class OnDisk:
    """Saved tensors in files, written at once and read when they are wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def pack(self, tensor: Tensor) -> Any:
        small = tensor.nbytes < SwapOptions.least_bytes
        if small or isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter):
            return tensor
        self._count += 1
        path = self._folder / str(self._count)
        tensor.detach().contiguous().numpy().tofile(path)
        return path, tensor.dtype, tensor.shape

    def unpack(self, packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        path, dtype, shape = packed
        found = torch.empty(shape, dtype=dtype)  # NumPy's own memory is none that the allocator counts
        with path.open("rb") as file:
            file.readinto(as_bytes(found.view(-1)))
        return found


def plain_way(
    name: str,
    samples: int,
    forward: Callable[[nn.Module, Tensor], Tensor],
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Way:
    """A plain loop of PyTorch's. `around`: what surrounds a forward pass."""
    torch.manual_seed(0)
    model, (inputs, targets) = registry.build(name, {}), batch(name, samples)
    updates = build_optimizer(OPTIMIZER, list(model.named_parameters()))

    def step() -> None:
        with around():
            loss = nn.functional.cross_entropy(forward(model, inputs), targets)
        loss.backward()
        updates.step()
        updates.zero_grad(set_to_none=True)

    def held() -> int:
        state = [v for values in updates.state.values() for v in values.values()]
        return stored([*model.parameters(), *model.buffers(), inputs, targets, *state])

    return Way(step, held)


def compiled_way(name: str, samples: int, share: float) -> Way:
    """The same of a compiled model, which keeps so much of what it would save."""
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        """One of its own: code is compiled again for another backend, and not for another model of the same class."""
        return lookup_backend("aot_eager_decomp_partition")(graph, inputs)

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        if not compiled:
            compiled.append(torch.compile(model, backend=backend))
        found: Tensor = compiled[0](x)
        return found

    return plain_way(name, samples, forward, lambda: partitioner.patch(activation_memory_budget=share))


def our_way(name: str, samples: int, choices: Mapping[str, Asked], scratch: str, *, counted: bool) -> Way:
    """Our own loop of a worker's, in this process."""
    torch.manual_seed(0)
    described = described_as(name, {})
    training = training_of(name, samples, described)
    steps = RealSteps(training, OPTIMIZER, choices, scratch=scratch, counted=counted)
    return Way(steps.step, lambda: steps.held)


def budgets(name: str, samples: int) -> dict[str, dict[str, Asked]]:
    """What each budget that is possible chooses, where it is not what a larger one chooses; the least one last."""
    described = described_as(name, {})
    with torch.device("meta"):
        fitter = fitter_of(training_of(name, samples, described), described)
    most = fitter.fit(2**50).peak
    found: dict[str, dict[str, Asked]] = {}
    for share in BUDGETS:
        try:
            choices = asked_for(fitter, budget := round(share * most))
        except UserError:
            break
        if choices not in found.values():
            found[f"budget {share:.0%}: {budget / MIB:.0f} MiB"] = choices
    least = fitter.choices(fitter.least())
    if least not in found.values():
        found["budget: the least that is possible"] = least
    return found


def ways(
    name: str, samples: int, budgeted: Mapping[str, dict[str, Asked]], scratch: Path, *, counted: bool
) -> dict[str, Callable[[], Way]]:
    """How each way is made, by name."""
    described = described_as(name, {})
    own = {mechanism: asked(described, mechanism) for mechanism in MECHANISMS}
    found: dict[str, Callable[[], Way]] = {}
    for at, (way, choices) in enumerate({**own, **budgeted}.items()):
        folder = scratch / str(at)
        folder.mkdir(exist_ok=True)
        found[way] = partial(our_way, name, samples, choices, str(folder), counted=counted)
    with torch.device("meta"):
        modules = len(list(registry.build(name, {}).children()))
    found[PLAIN] = partial(plain_way, name, samples, lambda model, x: model(x))
    for segments in sorted({2, round(math.sqrt(modules)), modules}):
        found[f"checkpoint_sequential, {segments} segments"] = partial(
            plain_way, name, samples, partial(_checkpointed, segments)
        )
    folder = scratch / "saved"
    folder.mkdir(exist_ok=True)
    files = OnDisk(folder)
    found["each saved tensor to a file"] = partial(
        plain_way,
        name,
        samples,
        lambda model, x: model(x),
        partial(saved_tensors_hooks, files.pack, files.unpack),
    )
    found[COMPILED] = partial(compiled_way, name, samples, 1.0)
    for share in PYTORCHS:
        found[f"{_PYTORCHS} {share}"] = partial(compiled_way, name, samples, share)
    return found


def _checkpointed(segments: int, model: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = checkpoint_sequential(list(model.children()), segments, x, use_reentrant=False)
    return found


def peaks(made: Mapping[str, Callable[[], Way]]) -> tuple[dict[str, int], dict[str, str]]:
    """Bytes at a step's highest moment, each way by itself; and why a way of PyTorch's cannot train the model."""
    found, unable = {}, {}
    for name, make in made.items():
        way = make()
        try:
            for _ in range(WARM_UP):
                way.step()
        except RuntimeError as error:
            if against(name) == KEEP:
                raise
            unable[name] = str(error).partition(":")[0]
        else:
            found[name] = peak_bytes(way.step) + way.held()
        del way
        gc.collect()
    return found, unable


def times(makes: Mapping[str, Callable[[], Way]], count: int) -> dict[str, list[float]]:
    """Seconds of a step, each way in each round."""
    torch._dynamo.config.recompile_limit = 64  # compiled ways are of one class
    made = {way: make() for way, make in makes.items()}
    for way in made.values():
        for _ in range(WARM_UP):
            way.step()
    found: dict[str, list[float]] = {way: [] for way in made}
    for _, name in rounds(list(made), count):
        begun = time.perf_counter()
        made[name].step()
        found[name].append(time.perf_counter() - begun)
    return found


def rows(peak: Mapping[str, int], spent: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """What each way takes, beside the same loop without it: loops differ by a few numbers that they keep of a loss."""
    ours = [way for way in peak if against(way) == KEEP]
    found: list[dict[str, Any]] = []
    for way in peak:
        compared = ratio(spent[way], spent[against(way)])
        alone = peak[against(way)]
        found.append(
            {
                "way": way,
                "peak": peak[way],
                "share": peak[way] / alone,
                "less": alone - peak[way],
                "time": compared,
            }
        )
    by_way = {row["way"]: row for row in found}
    for row in found:
        fitting = [by_way[way] for way in ours if by_way[way]["less"] >= row["less"]]
        row["ours"] = min((each["time"].median for each in fitting), default=None)
    return found


def against(way: str) -> str:
    """The way whose time it is compared with."""
    if way in MECHANISMS or way.startswith("budget"):
        return KEEP
    return COMPILED if way == COMPILED or way.startswith(_PYTORCHS) else PLAIN


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, *QUICK])
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--scratch", help="a folder on a disk for what is swapped; the system's where left out"
    )
    options = parser.parse_args()
    chosen = {**QUICK, **MODELS} if options.models else QUICK if options.quick else MODELS
    chosen = {name: chosen[name] for name in options.models or chosen}
    count = options.rounds or (6 if options.quick else 12)
    with Report(
        "memory-budget",
        "Time for memory",
        "How much time does less memory cost: by a budget, by one mechanism for all layers, and by PyTorch's own ways?",
        options,
    ) as report:
        report.plan(
            [f"{name}: {samples} samples, {count} rounds" for name, samples in chosen.items()],
            minutes=(1 if options.quick else 12) * len(chosen),
        )
        report.method(
            f"One process, {torch.get_num_threads()} threads, SGD with momentum. Peak: the allocator's own count of a"
            " step's highest moment, with what was there before; swapped bytes are then moved by the thread that"
            " computes, and in timed steps by one of their own. Time of a step over that of the same loop without."
            f" {METHOD}"
        )
        missed: list[str] = []
        table: list[list[Any]] = []
        for name, samples in chosen.items():
            with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-", dir=options.scratch) as scratch:
                chosen_by = budgets(name, samples)
                peak, unable = peaks(ways(name, samples, chosen_by, Path(scratch), counted=True))
                timed = ways(name, samples, chosen_by, Path(scratch), counted=False)
                spent = times({way: timed[way] for way in peak}, count)
            for way, why in unable.items():
                report.note(f"{name}, {way}: cannot train it ({why})")
            gc.collect()
            for row in rows(peak, spent):
                time_, best, way = row["time"], row["ours"], row["way"]
                report.raw(
                    [{"model": name, "samples": samples, **row, "time": time_.median, "seconds": spent[way]}]
                )
                peer = against(way) != KEEP and way not in (PLAIN, COMPILED)
                if peer and (best is None or best > time_.high):
                    missed.append(f"{name}, {way}")
                beside = ("none" if best is None else f"{best:.3f}") if peer else ""
                table.append(
                    [name, way, f"{row['peak'] / MIB:.1f}", f"{row['share']:.1%}", str(time_), beside]
                )
            columns = [
                "model",
                "way",
                "peak, MiB",
                "of all kept",
                "time of all kept",
                "ours in no more memory",
            ]
            report.table("Peak and time", columns, table)
        report.aims(
            [
                (
                    "in no more memory than a peer's, ours takes no longer, each beside its own loop",
                    "everywhere" if not missed else f"not: {'; '.join(missed)}",
                    not missed,
                )
            ]
        )
    raise SystemExit(report.exit_code())


if __name__ == "__main__":
    main()
