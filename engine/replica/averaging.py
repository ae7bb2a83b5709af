"""One worker's replica where workers average every k steps (`engine/consistency/average.py` says what and why).

In a step that no average follows nothing leaves, and layers are updated when backward ends, as with one worker. In a
step that an average follows the stages are
    train     a layer is updated as soon as its gradients are final, unless clipping needs all of them
    push      its gradients' memory takes what has changed since the last average, times the worker's share, and its
              units leave through their exchange, in their order
    average   the exchange sums
    pull      the next forward pass waits, layer by layer, for the sums, and takes the outer step
so that the exchange of one layer overlaps the backward pass of others and the next forward pass, as gradients do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.consistency.average import Average
from engine.coordination.gather import Gather
from engine.inputs.loader import StepBatch
from engine.plan.description import ModelDescription
from engine.plan.optimizers import STEP_COUNT
from engine.plan.units import Unit, carried, state_name
from engine.replica.by_plan import PlanReplica
from engine.replica.layer import Layer
from engine.state.updates import Hyper, Updater, with_rate


def state_carriers(
    model: ModelDescription, state: Sequence[str], parameters: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    """For every tensor of the optimizer's state that travels, a stand-in whose gradient carries it: it has the
    tensor's shape, type and device, and no memory."""
    found: dict[str, Parameter] = {}
    if not state:
        return found
    device = next(iter(parameters.values())).device
    for layer in model.layers:
        for described in carried(layer, state):
            if described.name not in parameters:
                empty = torch.zeros((), dtype=getattr(torch, described.dtype), device=device)
                found[described.name] = Parameter(empty.expand(described.shape))
    return found


class AveragingReplica(PlanReplica):
    """A model that is trained alone and averaged."""

    def __init__(
        self,
        *,
        average: Average,
        carriers: Mapping[str, Parameter],
        gather: Gather,
        hyper: Callable[[int], Hyper],
        **rest: Any,
    ) -> None:
        """`carriers`: see `state_carriers`; the memory knows them beside the parameters. `gather`: for evaluations
        between averages. `hyper` and the `rest`: see PlanReplica."""
        super().__init__(hyper=with_rate(hyper, average.rate_factor), **rest)
        self._guarded = set(self._parameters)  # an average is outstanding, be it of one worker
        self._average = average
        self._outer = average.outer()
        self._carriers = carriers
        self._gather = gather
        self._common = {
            name: p.detach().clone() for layer in self._layers for name, p in layer.parameters.items()
        }
        """The parameters after the last average."""
        self._seen = (0, 0)
        """Samples (or targets) since the last average: this worker's, all workers'."""
        self._left: dict[int, int] = {}
        """By unit: how many of its layers have not been updated in this step."""
        self._contributed: set[Layer] = set()
        """Layers that have been updated since backward began."""

    # --- what the trainer calls ---

    def begin_step(self, step: int, batch: StepBatch) -> None:
        super().begin_step(step, batch)
        own, whole = (0, 0) if self._average.follows(step - 1) else self._seen
        self._seen = own + batch.counted[0], whole + batch.counted[1]

    def begin_backward(self, last: bool) -> None:
        super().begin_backward(last)
        if last:
            self._left = {index: len(choice.unit.layers) for index, choice in self._choices.items()}
            self._contributed.clear()

    @contextmanager
    def common(self) -> Iterator[None]:
        """The mean that an average would give, for as long as it is looked at."""
        if self._average.follows(self._step - 1):
            yield
            return
        local: dict[str, Tensor] = {}
        with torch.no_grad():
            for layer in self._layers:
                for name, parameter in layer.parameters.items():
                    local[name] = parameter.detach().clone()
                    parts = self._gather.run([self._contribution(name, parameter).cpu()])
                    mean = torch.stack([part[0] for part in parts]).sum(0)
                    parameter.copy_(self._common[name] + mean.to(parameter.device))
        try:
            yield
        finally:
            with torch.no_grad():
                for layer in self._layers:
                    for name, parameter in layer.parameters.items():
                        parameter.copy_(local[name])

    # --- train, push ---

    def _tell_exchanges(self, step: int) -> None:
        """Of averages only: after other steps there is nothing to ask for."""
        if self._average.follows(step - 1):
            super()._tell_exchanges(step)

    def _layer_is_final(self, layer: Layer) -> None:
        super()._layer_is_final(layer)
        if self._clip_norm is None and self._average.follows(self._step) and not self._may_be_read(layer):
            self._contribute(layer)

    def _may_be_read(self, layer: Layer) -> bool:
        """Whether something in backward may still look at what the layer's parameters are."""
        return self._reads.expected_in_backward or self._reads.shared(layer)

    def _lost(self, layer: Layer) -> bool:
        return layer in self._contributed

    def _depart(self, unit: Unit) -> None:
        """Not with its gradients: when all of its layers have been updated."""

    def _depart_late(self) -> None:
        """What is not final in backward: layers of which not all parameters were used, or everything where the norm
        of all gradients counts. Without an average after this step all versions are here."""
        if not self._average.follows(self._step):
            for index in self._choices:
                self._versions.advance(index, self._step + 1)
            return
        if self._clip_norm is not None:
            self._clip()
        for layer in self._layers:
            if layer not in self._contributed:
                self._contribute(layer)

    def _contribute(self, layer: Layer) -> None:
        """Update the layer and let its units carry how far it has come."""
        self._contributed.add(layer)
        updater = _updater(layer)
        start = self._recording.mark()
        updater.update(self._hyper(self._step), layer.parameters.values())
        with torch.no_grad():
            for name, parameter in layer.parameters.items():
                parameter.grad = self._contribution(name, parameter)
                for slot in self._average.state:
                    carrier = self._carriers[state_name(name, slot)]
                    value = updater.state(parameter, slot)
                    carrier.grad = None  # as long as the optimizer has never updated the parameter
                    if value is not None:
                        carrier.grad = torch.empty(carrier.shape, dtype=carrier.dtype, device=carrier.device)
                        carrier.grad.copy_(value).mul_(self._share)
        self._recording.applied(layer.index, start)
        self._close(layer.parameters)
        for unit in layer.units:
            self._left[unit.index] -= 1
            if self._left[unit.index] == 0:
                super()._depart(unit)

    def _contribution(self, name: str, parameter: Parameter) -> Tensor:
        """What of the averaged step of one parameter is this worker's; a tensor of its own, contiguous."""
        return (parameter.detach() - self._common[name]).mul_(self._share)

    @property
    def _share(self) -> float:
        own, whole = self._seen
        return own / whole if whole else 0.0

    # --- pull ---

    def _clips(self) -> bool:
        return super()._clips() and not self._average.follows(self._step - 1)

    def _bring(self, layers: Sequence[Layer], needed: int) -> None:
        """The averaged step where one is due, else the layers' own update."""
        if not self._average.follows(self._step - 1):
            super()._bring(layers, needed)
            return
        for layer in layers:
            self._take_average(layer, needed)

    def _take_average(self, layer: Layer, needed: int) -> None:
        self._take_units(layer, needed)
        updater = _updater(layer)
        start = self._recording.mark()
        with torch.no_grad():
            for name, parameter in layer.parameters.items():
                assert parameter.grad is not None, f"{name} has not been averaged"
                self._outer.step(name, self._common[name], parameter.grad)
                parameter.copy_(self._common[name])
                parameter.grad = None
                for slot in self._average.state:
                    carrier = self._carriers[state_name(name, slot)]
                    if carrier.grad is None:  # on no worker
                        continue
                    mean = carrier.grad.round() if slot == STEP_COUNT else carrier.grad
                    updater.set_state(parameter, slot, mean)
                    carrier.grad = None
        self._recording.averaged(layer.index, start)
        layer.version = self._step
        self._reads.open(layer)


def _updater(layer: Layer) -> Updater:
    """The optimizer: between averages it is here, wherever units meet."""
    assert layer.updater is not None
    return layer.updater
