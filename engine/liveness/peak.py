"""Peak: how many bytes a worker's step holds at the most, found by running steps on tensors without values.

The model, the loss, the optimizer and the memory mechanisms are those of a worker, in its order: forward and backward
of each micro-batch (`passes.py`), then the update, after which gradients are forgotten. `Ledger` counts, with the
host's kernels (`host_kernels.py`). Counted is the third step: a mechanism has learnt by then what its blocks do, and
the optimizer has its state. What a mechanism holds beside that while it learns shows in `first`.

Held to the allocator's own count on real steps by a test. Not in it: what replica and exchange hold beside the model
(`engine/plan/memory.py` declares it), checksums and copies of small buffers that
recomputation makes, what waits to be written to disk, and what no allocator of PyTorch's counts: libraries, code, the
heap's gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from engine.instrumentation.module_calls import before_forward
from engine.liveness import host_kernels
from engine.liveness.ledger import Holder, Ledger
from engine.liveness.passes import Passing, Stage, Step, actions_of
from engine.liveness.training import Training
from engine.memory.activations import Activations
from engine.memory.blocks import Asked
from engine.memory.mechanism import Passes, Site
from engine.models.meta_kernels import quick
from engine.plan.description import ModelDescription
from engine.plan.peak import PARTS, Peak
from engine.plan.updates import OFFLOADED_BYTES, OptimizerSpec
from engine.state.computation import Computation, Memory
from engine.state.updates import Updater, as_they_are

_MADE = {
    "forward": "activations",
    "again": "activations",
    "backward": "derivatives",
    "update": "optimizer state",
}
"""What becomes of what is made in a part of a step."""
STEPS = 3


@quick()
def peak_of(
    training: Training,
    optimizer: OptimizerSpec,
    choices: Mapping[str, Asked],
    *,
    micro_batches: int = 1,
    batches: int = 1,
    updated: Collection[str] | None = None,
    memory: Memory | None = None,
    stage: Stage | None = None,
) -> Peak:
    """Of a worker that trains a model on batches as these, on `meta`: all of it, or one `stage`. `choices`: of the
    layers that do not keep their activations, by name. `batches`: so many are there at a time, those read ahead with
    the one in use. `updated`: the layers whose optimizer is here; None: all. `memory`: in place of what the layers ask
    for. Raises UserError as a worker does that is given them, and whatever a model raises that looks at values."""
    described, model = training.described, stage.part if stage is not None else training.model
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with ExitStack() as surroundings:
        ledger = surroundings.enter_context(Ledger(host_kernels))
        surroundings.enter_context(host_kernels.on_the_host())
        step = Step(ledger, tuple(layer.name for layer in described.layers))
        ledger.book(model.parameters(), Holder("parameters"))
        ledger.book(model.buffers(), Holder("buffers"))
        ledger.holder = Holder("inputs")
        ledger.book(training.batch, ledger.holder)
        ahead = torch.empty((batches - 1) * ledger.held_by("inputs"), dtype=torch.uint8, device="meta")
        site = Site(
            part=model,
            device=torch.device("meta"),
            passes=Passes(),
            recording=step,
            repeats=True,
            scratch="",
        )
        computation = Computation(memory=memory or Activations(site, described, choices))
        surroundings.callback(computation.close)
        _watch(surroundings, model, described, step)
        updates = _Updates(described, trained, optimizer, updated, ledger)
        for parameter in trained.values():
            told = parameter.register_post_accumulate_grad_hook(partial(_accumulated, ledger))
            surroundings.callback(told.remove)
        passes = Passing(training, stage, computation, step)
        first = 0
        for number in range(STEPS):
            ledger.begin()
            for action in actions_of(stage, micro_batches):
                passes.do(action)
            step.enter("update")
            ledger.book(updates.step(), Holder("optimizer state"))
            if number < STEPS - 1:
                first = max(first, ledger.peak)
        del ahead  # it was there all the time
    return _found(ledger, step, first)


class _Updates:
    """What is done with the gradients of a step."""

    def __init__(
        self,
        described: ModelDescription,
        trained: Mapping[str, nn.Parameter],
        optimizer: OptimizerSpec,
        updated: Collection[str] | None,
        ledger: Ledger,
    ) -> None:
        self._trained = trained
        chosen = [layer for layer in described.layers if updated is None or layer.name in updated]
        here = {parameter.name for layer in chosen for parameter in layer.parameters}
        named = {name: parameter for name, parameter in trained.items() if name in here}
        away = _Elsewhere(ledger) if optimizer.offload else None
        self._updater = Updater(optimizer, named, away) if named else None
        self._hyper = as_they_are(optimizer)

    def step(self) -> list[torch.Tensor]:
        """Update, and forget the gradients. Answers with the optimizer's state."""
        if self._updater is not None:
            self._updater.update(self._hyper)
        for parameter in self._trained.values():
            parameter.grad = None
        return [] if self._updater is None else list(self._updater.state().values())


class _Elsewhere:
    """What an optimizer keeps in a file (`engine/memory/offload.py`), in no memory that is counted."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def twin(self, parameter: torch.Tensor) -> torch.Tensor:
        return parameter

    def updating(self, parameter: torch.Tensor, twin: torch.Tensor) -> AbstractContextManager[None]:
        return nullcontext()

    def keep(self, parameter: torch.Tensor, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.nbytes >= OFFLOADED_BYTES:
                self._ledger.leaves(value)


def _watch(surroundings: ExitStack, model: nn.Module, described: ModelDescription, step: Step) -> None:
    modules = dict(model.named_modules(remove_duplicate=False))
    for layer in described.layers:
        if layer.name in modules:
            told = before_forward(modules[layer.name], partial(step.entering, layer.name))
            surroundings.callback(told.remove)


def _accumulated(ledger: Ledger, parameter: torch.Tensor) -> None:
    if parameter.grad is not None:
        ledger.book([parameter.grad], Holder("gradients"))


def _found(ledger: Ledger, step: Step, first: int) -> Peak:
    parts: Counter[str] = Counter(dict.fromkeys(PARTS, 0))
    for holder, size in ledger.at_peak.items():
        parts[_MADE.get(holder.part, holder.part)] += size
    return Peak(
        total=ledger.peak,
        parts=dict(parts),
        saved={name: step.saved[name] for name in step.layers if step.saved[name]},
        when=ledger.during.part,
        layer=ledger.during.layer,
        first=first,
    )
