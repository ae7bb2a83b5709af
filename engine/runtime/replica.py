"""One worker's replica under a plan: forward waits for versions, gradients leave as they become ready.

The trainer calls the methods in the order of a step:
    begin_step -> [begin_forward, model(...), end_forward, begin_backward(last), loss.backward(), end_backward] per
    micro-batch -> next step ... -> settle
Hooks do the rest: each module's forward pre-hook waits for the versions of the parameters that it truly uses
(`engine/models/uses.py`), each parameter's accumulate hook counts its unit towards departure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from engine.consistency.every_step import EveryStep
from engine.errors import TrainingError
from engine.exchange.base import Choice, Exchange
from engine.inputs.loader import StepBatch
from engine.models.uses import UseFinder
from engine.order import DEPART
from engine.plan.units import Unit
from engine.runtime.capture import Capture
from engine.runtime.host_memory import HostMemory
from engine.runtime.recording import Recording
from engine.runtime.updates import Hyper, LayerUpdater
from engine.runtime.versions import Versions


class Layer:
    """One layer of the plan on this worker."""

    def __init__(
        self, index: int, name: str, parameters: Mapping[str, Parameter], updater: LayerUpdater | None
    ) -> None:
        self.index = index
        self.name = name
        self.parameters = parameters
        self.updater = updater
        """None where a server updates."""
        self.units: list[Unit] = []
        self.version = 0
        """Steps whose result the parameters hold."""


class PlanReplica:
    """A model whose layers are exchanged as the plan says."""

    def __init__(
        self,
        *,
        model: nn.Module,
        layers: Sequence[Layer],
        choices: Mapping[int, Choice],
        exchanges: Mapping[int, Exchange],
        captures: Mapping[int, Capture],
        memory: HostMemory,
        versions: Versions,
        recording: Recording,
        hyper: Callable[[int], Hyper],
        announce: Callable[[int, Hyper], None],
        clip_norm: float | None,
    ) -> None:
        """`choices`, `exchanges` and `captures` by unit index. `announce(step, hyper)` tells the servers;
        called by every worker, done by worker 0."""
        self.model = model
        self._layers = layers
        self._choices = choices
        self._exchanges = exchanges
        self._distinct = list(dict.fromkeys(exchanges.values()))
        self._memory = memory
        self._versions = versions
        self._recording = recording
        self._hyper = hyper
        self._announce = announce
        self._clip_norm = clip_norm
        self._consistency = EveryStep()
        self._step = 0
        self._forward = False
        self._departing = False
        self._finder: UseFinder | None = None
        self._first_waits: list[Layer] = []
        """What a pass may use before it calls any module."""
        self._waits: dict[str, list[Layer]] = {}
        self._names = {module: name for name, module in model.named_modules()}
        self._layer_of = {name: layer for layer in layers for name in layer.parameters}
        self._units_of: dict[str, list[Unit]] = defaultdict(list)
        for choice in choices.values():
            for name in dict.fromkeys(s.parameter for s in choice.unit.segments):
                self._units_of[name].append(choice.unit)
        self._layer_gradients: dict[str, int] = {}
        self._unit_gradients: dict[int, int] = {}
        self._accumulated: set[str] = set()
        """Parameters whose gradient of the step is final."""
        self._started: set[int] = set()
        self._departures = {
            name: DEPART[name].load()(self._start)
            for name in {c.layer.order.depart for c in choices.values()}
        }
        self._captures = list(captures.values())
        captured = {s.parameter: capture for i, capture in captures.items() for s in choices[i].unit.segments}
        for name, parameter in model.named_parameters():
            if name in captured:
                captured[name].when_final(parameter, self._on_gradient(name))
            elif name in self._layer_of:
                parameter.register_post_accumulate_grad_hook(self._on_gradient(name))

    # --- what the trainer calls ---

    def begin_step(self, step: int, batch: StepBatch) -> None:
        self._step = step
        self._tell_exchanges(step)
        if step == 0:
            self._finder = UseFinder(self.model)

    def begin_forward(self) -> None:
        self._recording.begin_pass()
        self._forward = True
        if self._finder is not None:
            self._finder.__enter__()
        for layer in self._first_waits:
            self._wait(layer)

    def end_forward(self) -> None:
        """Wait for the layers that this pass did not use, too: their gradients are about to be due again."""
        if self._finder is not None:
            self._finder.__exit__(None, None, None)
            self._install_waits(self._finder)
            self._finder = None
        self._recording.end_forward()
        for layer in self._layers:
            self._wait(layer)
        self._forward = False

    def begin_backward(self, last: bool) -> None:
        """`last`: the step's last micro-batch, after which gradients are final."""
        self._departing = last
        for capture in self._captures:
            capture.begin_backward()
        if last:
            self._announce(self._step, self._hyper(self._step))
            self._accumulated.clear()
            self._started.clear()
            self._layer_gradients = {layer.name: len(layer.parameters) for layer in self._layers}
            self._unit_gradients = {
                index: len({s.parameter for s in choice.unit.segments})
                for index, choice in self._choices.items()
            }
        self._recording.begin_pass()

    def end_backward(self) -> None:
        """Units whose parameters were not all used leave now, with what they have or as absent."""
        self._recording.end_backward()
        for capture in self._captures:
            capture.end_backward()
        if not self._departing:
            return
        self._departing = False
        self._depart_late()
        for departure in self._departures.values():
            departure.backward_ended()
        self._step += 1

    def accumulating(self) -> AbstractContextManager[None]:
        """Around a micro-batch that is not the last: its gradients stay here."""
        return nullcontext()

    def settle(self) -> None:
        """Block until this worker holds the result of every step so far, in all layers."""
        self._tell_exchanges(self._step)
        for layer in self._layers:
            self._wait(layer)

    def common(self) -> AbstractContextManager[None]:
        """Around an evaluation or a saved state: all workers hold the same parameters once settled."""
        return nullcontext()

    def close(self) -> None:
        for exchange in self._distinct:
            exchange.close()

    def _tell_exchanges(self, step: int) -> None:
        """The forward pass of `step` is about to need what they bring."""
        for exchange in self._distinct:
            exchange.begin_step(step)

    # --- forward ---

    def _install_waits(self, finder: UseFinder) -> None:
        """Wait where the first pass truly used the parameters, and in every module that registers them, because a
        later pass may take another way; where no use was seen, in the root."""
        uses = finder.uses()
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        self._first_waits = self._layers_of(uses.before_forward)
        for path, module in self.model.named_modules():
            registered = [names[id(parameter)] for parameter in module.parameters(recurse=False)]
            layers = self._layers_of([*uses.waits.get(path, ()), *registered])
            if layers:
                self._waits[path] = layers
                module.register_forward_pre_hook(self._before_module, prepend=True)

    def _layers_of(self, parameters: Iterable[str]) -> list[Layer]:
        return list(dict.fromkeys(self._layer_of[name] for name in parameters if name in self._layer_of))

    def _before_module(self, module: nn.Module, inputs: object) -> None:
        if not self._forward:
            return  # evaluation, or recomputation during backward
        name = self._names[module]
        layers = self._waits[name]
        if name or layers[0].name == name:  # the root may only be waiting for what no module was seen to use
            self._recording.entering(layers[0].index)
        for layer in layers:
            self._wait(layer)

    def _wait(self, layer: Layer) -> None:
        needed = self._consistency.version_needed(self._step)
        if layer.version >= needed:
            return
        waiting = self._layers if self._clip_norm is not None else [layer]
        for other in waiting:
            self._wait_for_units(other, needed)
            self._memory.before_use(other.units)
            if other.updater is not None:
                for unit in other.units:
                    self._exchanges[unit.index].finish(unit, needed - 1)
        hyper = self._hyper(needed - 1)
        if self._clip_norm is not None:
            self._clip(self._clip_norm)
        for other in waiting:
            if other.updater is not None:
                start_ns = self._recording.now_ns()
                other.updater.update(hyper)
                self._recording.applied(other.index, start_ns)
            for parameter in other.parameters.values():
                parameter.grad = None
            other.version = needed

    def _wait_for_units(self, layer: Layer, version: int) -> None:
        if self._versions.reached(layer.units, version):
            return
        start_ns = self._recording.now_ns()
        last = self._versions.wait(layer.units, version, self._missing)
        self._recording.waited(layer.index, last, start_ns)

    def _missing(self, unit: Unit) -> str:
        return self._exchanges[unit.index].missing(unit)

    def _clip(self, limit: float) -> None:
        """Scale all summed gradients so that their global norm is at most `limit`."""
        parameters = [p for layer in self._layers for p in layer.parameters.values()]
        torch.nn.utils.clip_grad_norm_(parameters, limit)

    # --- backward ---

    def _on_gradient(self, name: str) -> Callable[[Tensor], None]:
        layer, units = self._layer_of[name], self._units_of[name]

        def hook(parameter: Tensor) -> None:
            if not self._departing:
                return
            if name in self._accumulated:
                raise TrainingError(
                    f"the gradient of {name} came in several parts, the second after the first had left:"
                    " reentrant checkpointing does so with layers that are used more than once."
                    " Call checkpoint with use_reentrant=False"
                )
            self._accumulated.add(name)
            self._layer_gradients[layer.name] -= 1
            if self._layer_gradients[layer.name] == 0:
                self._layer_is_final(layer)
            for unit in units:
                self._unit_gradients[unit.index] -= 1
                if self._unit_gradients[unit.index] == 0:
                    self._depart(unit)

        return hook

    def _layer_is_final(self, layer: Layer) -> None:
        """Backward has computed the last gradient of `layer`."""
        self._recording.gradient(layer.index)

    def _depart_late(self) -> None:
        """The units of which not all parameters were used in this step."""
        for index, choice in self._choices.items():
            if self._unit_gradients[index] > 0:
                self._depart(choice.unit)

    def _depart(self, unit: Unit) -> None:
        self._departures[self._choices[unit.index].layer.order.depart].ready(unit)

    def _start(self, unit: Unit) -> None:
        assert unit.index not in self._started, f"unit {unit.index} left twice in step {self._step}"
        self._started.add(unit.index)
        self._exchanges[unit.index].start(unit, self._step)
