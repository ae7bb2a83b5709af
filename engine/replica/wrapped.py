"""One worker's replica under one of PyTorch's own wrappers, with the methods of `PlanReplica`.

What is exchanged when is the wrapper's own affair. It has ended when backward has: gradients are clipped and the
optimizer, one over all parameters, runs at once, as its users do it. Sums are what is wanted, not means: our losses are
scaled by the global batch already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from importlib import import_module

import torch
from torch import Tensor, nn

from engine.exchange.native import leave_process_group
from engine.inputs.loader import StepBatch
from engine.inputs.task import BatchLoss, Task
from engine.instrumentation.compiled import outside_regions
from engine.instrumentation.entries import Entries, Parameters
from engine.instrumentation.module_calls import before_forward
from engine.plan.plan import Wrapper
from engine.plan.updates import OptimizerSpec
from engine.replica.outside import Outside
from engine.replica.watch import Watch
from engine.state.recording import Recording
from engine.state.updates import Away, Hyper, Updater, clip_gradients
from engine.telemetry.collectives import Collectives
from engine.telemetry.events import NO_LAYER, NONE

_REPLICAS = {
    "ddp": "engine.replica.ddp:DdpReplica",
    "fsdp": "engine.replica.fsdp:FsdpReplica",
}


class WrappedReplica(ABC):
    """A model that PyTorch exchanges."""

    whole = True
    """Whether every worker holds all parameters between two steps."""

    def __init__(
        self,
        *,
        model: nn.Module,
        layer_index: Mapping[str, int],
        wrapper: Wrapper,
        optimizer: OptimizerSpec,
        away: Away | None,
        recording: Recording,
        collectives: Collectives,
        hyper: Callable[[int], Hyper],
        clip_norm: float | None,
        device: str,
        all_used: bool,
        watch: Watch | None,
    ) -> None:
        """`layer_index`: the trainable parameters' layers' forward positions, by name. `away`: see Updater. `all_used`:
        every pass uses every parameter, so that nobody need look for those that have no gradient. `watch`: of
        parameters that every worker holds."""
        self.model = model
        self._layer_index = layer_index
        self._layer_of = {p: layer_index[name] for name, p in model.named_parameters() if name in layer_index}
        self._recording = recording
        self._collectives = collectives
        self._hyper = hyper
        self._clip_norm = clip_norm
        self._watch = watch
        self._step = 0
        self._departing = False
        self._marked = False
        """Whether the layers are marked."""
        self._forward = False
        self._wrap(wrapper, device, all_used)
        self._outside = Outside(model, by_name=wrapper.runner == "fsdp")
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._updater = self._updates(optimizer, away)
        self._layer_size: dict[int, int] = {}
        for name, parameter in self._parameters.items():
            layer = layer_index[name]
            self._layer_size[layer] = self._layer_size.get(layer, 0) + 1
            parameter.register_post_accumulate_grad_hook(self._on_gradient(layer))
        self._layer_left = dict(self._layer_size)

    @abstractmethod
    def _wrap(self, wrapper: Wrapper, device: str, all_used: bool) -> None:
        """Prepare the model for its exchange."""

    def _updates(self, optimizer: OptimizerSpec, away: Away | None) -> Updater:
        """Of the trainable parameters."""
        return Updater(optimizer, self._parameters, away)

    @abstractmethod
    def accumulating(self) -> AbstractContextManager[None]:
        """Around a micro-batch that is not the last: no exchange."""

    @abstractmethod
    def settle(self) -> None:
        """Let the model hold the result of every step so far, whole. Collective."""

    def ends(self, steps: int) -> None:
        self.settle()

    def finish(self) -> None:
        """All workers are in the same step, and have ended together."""
        return

    def passing(self, task: Task) -> Callable[[Tensor, Tensor], BatchLoss]:
        return partial(task, self.model)

    def begin_step(self, step: int, batch: StepBatch) -> None:
        self._step = step
        if self._watch is not None:
            self._watch.begin_step(step, self._parameters)

    def common(self) -> AbstractContextManager[None]:
        if self._watch is not None:
            self._watch.check()
        return nullcontext()

    def begin_forward(self) -> None:
        self._recording.begin_pass()
        if not self._marked:
            self._mark_layers()
            self._marked = True
        self._forward = True

    def end_forward(self) -> None:
        self._forward = False
        self._recording.end_forward()

    def begin_backward(self, last: bool) -> None:
        self._outside.check(self._step)
        self._layer_left = dict(self._layer_size)
        self._recording.begin_pass(backward=True)
        self._departing = last
        if last and self._watch is not None:
            self._watch.tell()

    def end_backward(self) -> None:
        """The exchange was awaited inside backward, since the last gradient: clip and update."""
        if not self._departing:
            self._recording.end_backward()
            return
        self._recording.collectives_awaited()
        if self._watch is not None:
            self._watch.leaves(self._parameters)
            self._watch.end_backward(self._step, ())
        if self._clip_norm is not None:
            clip_gradients(self._parameters, self._clip_norm)
        start = self._recording.mark()
        self._updater.update(self._hyper(self._step))
        self._recording.applied(NONE, start)
        for parameter in self._parameters.values():
            parameter.grad = None
        if self._watch is not None:
            self._watch.came(self._parameters)
        self._step += 1

    def close(self) -> None:
        self._told.close()
        leave_process_group(self._collectives)

    @property
    def updater(self) -> Updater:
        """What it updates with."""
        return self._updater

    def _mark_layers(self) -> None:
        """Tell forward spans apart by the modules that own parameters, and of compiled ones by the first."""
        modules = dict(outside_regions(self.model))
        owners: dict[str, int] = {}
        self._told = ExitStack()  # when it is closed, nobody tells of calls any more
        for name, index in self._layer_index.items():
            owners.setdefault(name.rpartition(".")[0], index)
        for owner, index in owners.items():
            if owner in modules:
                told = before_forward(modules[owner], partial(self._entering, index))
                self._told.callback(told.remove)
        index_of = {id(parameter): self._layer_index[name] for name, parameter in self._parameters.items()}
        entries = Entries(self.model, partial(self._before_compiled, index_of))
        self._told.callback(entries.close)
        entries.watch()

    def _entering(self, layer: int) -> None:
        if self._forward:
            self._recording.entering(layer)

    def _before_compiled(self, index_of: Mapping[int, int], parameters: Parameters | None) -> None:
        layers = [index_of[each] for each in parameters or () if each in index_of]
        if layers:
            self._entering(min(layers))

    def _weights(self, parameters: Iterable[nn.Parameter]) -> dict[int, int]:
        """How many bytes of these belong to each layer; what is frozen, to none."""
        found: Counter[int] = Counter()
        for parameter in parameters:
            found[self._layer_of.get(parameter, NO_LAYER)] += parameter.nbytes
        return found

    def _on_gradient(self, layer: int) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            self._layer_left[layer] -= 1
            if self._layer_left[layer] == 0:
                self._recording.gradient(layer)

        return hook


def wrapped_class(runner: str) -> type[WrappedReplica]:
    """The replica of a runner, loaded only where it runs."""
    module, _, name = _REPLICAS[runner].partition(":")
    found: type[WrappedReplica] = getattr(import_module(module), name)
    return found
