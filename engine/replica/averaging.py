"""Averaging: units carry what training alone has changed (`engine/consistency/average.py` says what and why).

In a step after which nothing leaves, layers are updated when backward ends, as with one worker. The layers of a
fragment that leaves after a step are
    updated   as soon as their gradients are final, unless clipping needs all of them
    sent      their carriers take what has changed since the fragment's last average, times the worker's share, and
              their units leave through their exchange, in their order
    averaged  the exchange sums, in the carriers
    taken     the forward pass behind the step in which the average is due waits, layer by layer, for the sums, and
              takes the outer step
so that the exchange of one layer overlaps the backward pass of others and the next forward pass, as gradients do. Where
the average is due some steps later, training goes on meanwhile: the carriers are none of the model's own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.consistency.average import Average
from engine.coordination.gather import Gather
from engine.inputs.loader import StepBatch
from engine.instrumentation.gate import past_gates
from engine.plan.description import ModelDescription
from engine.plan.optimizers import STEP_COUNT
from engine.plan.units import Unit, carried, state_name
from engine.replica.contributions import Holder
from engine.replica.layer import Layer
from engine.state.updates import Updater


def carriers_of(
    model: ModelDescription, state: Sequence[str], parameters: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    """For every tensor that travels, a stand-in whose gradient carries it: it has the tensor's shape, type and device,
    and no memory."""
    found: dict[str, Parameter] = {}
    device = next(iter(parameters.values())).device
    for layer in model.layers:
        for described in carried(layer, state):
            empty = torch.zeros((), dtype=getattr(torch, described.dtype), device=device)
            found[described.name] = Parameter(empty.expand(described.shape))
    return found


class Differences:
    """What a worker has changed since the last average leaves, and the averaged step comes. See `Contributions`."""

    outstanding = True

    def __init__(
        self, holder: Holder, *, average: Average, carriers: Mapping[str, Parameter], gather: Gather
    ) -> None:
        """`carriers`: see `carriers_of`; the memory knows them. `gather`: for evaluations between averages."""
        self._holder = holder
        self._average = average
        self._outer = average.outer()
        self._carriers = carriers
        self._gather = gather
        self._fragment = {layer: _fragment(layer, holder) for layer in holder.layers}
        self._fragments = sorted(set(self._fragment.values()))
        self._common = {
            name: p.detach().clone() for layer in holder.layers for name, p in layer.parameters.items()
        }
        """The parameters after the last average."""
        self._seen = dict.fromkeys(self._fragments, (0, 0))
        """By fragment: samples (or targets) since what last left of it, this worker's and all workers'."""
        self._left: dict[int, int] = {}
        """By unit: how many of its layers have not been updated in this step."""
        self._updated: set[Layer] = set()
        """Layers that have been updated since backward began."""
        self._step = 0
        self.clipped = False

    def begin_step(self, step: int, batch: StepBatch) -> None:
        self._step = step
        for fragment, seen in self._seen.items():
            own, whole = (0, 0) if step == 0 or self._average.leaves(fragment, step - 1) else seen
            self._seen[fragment] = own + batch.counted[0], whole + batch.counted[1]

    def begin_backward(self) -> None:
        self._left = {index: len(choice.unit.layers) for index, choice in self._holder.choices.items()}
        self._updated.clear()
        self.clipped = False

    def asks(self, step: int) -> bool:
        """Of averages only: after other steps there is nothing to ask for."""
        return any(self._average.arrives(fragment, step - 1) is not None for fragment in self._fragments)

    # --- update, send ---

    def layer_is_final(self, layer: Layer) -> None:
        if self._holder.clip is None and self._leaves(layer) and not self._holder.may_be_read(layer):
            self._send(layer)

    def unit_is_final(self, unit: Unit) -> None:
        """It leaves when all of its layers have been updated."""

    def backward_ended(self, left: Sequence[Unit]) -> None:
        """What is not final in backward: layers of which not all parameters were used, or everything where the norm
        of all gradients counts."""
        leaving = [
            layer for layer in self._holder.layers if self._leaves(layer) and layer not in self._updated
        ]
        if leaving and self._holder.clip is not None:
            self._holder.clip()
            self.clipped = True
        for layer in leaving:
            self._send(layer)

    def updated(self, layer: Layer) -> bool:
        return layer in self._updated

    def _leaves(self, layer: Layer) -> bool:
        return self._average.leaves(self._fragment[layer], self._step)

    @past_gates
    def _send(self, layer: Layer) -> None:
        """Update the layer and let its units carry how far it has come."""
        self._updated.add(layer)
        updater = _updater(layer)
        start = self._holder.recording.mark()
        updater.update(self._holder.hyper(self._step), layer.parameters.values())
        with torch.no_grad():
            for name, parameter in layer.parameters.items():
                parameter.grad = None
                self._carriers[name].grad = self._difference(layer, name, parameter)
                for slot in self._average.state:
                    carrier = self._carriers[state_name(name, slot)]
                    value = updater.slot(parameter, slot)
                    carrier.grad = None  # as long as the optimizer has never updated the parameter
                    if value is not None:
                        carrier.grad = torch.empty(carrier.shape, dtype=carrier.dtype, device=carrier.device)
                        carrier.grad.copy_(value).mul_(self._share(layer))
        self._holder.recording.applied(layer.index, start)
        self._holder.close(layer)
        for unit in layer.units:
            self._left[unit.index] -= 1
            if self._left[unit.index] == 0:
                self._holder.depart(unit)

    def _difference(self, layer: Layer, name: str, parameter: Parameter) -> Tensor:
        """What of the averaged step of one parameter is this worker's; a tensor of its own, contiguous."""
        return (parameter.detach() - self._common[name]).mul_(self._share(layer))

    def _share(self, layer: Layer) -> float:
        own, whole = self._seen[self._fragment[layer]]
        return own / whole if whole else 0.0

    # --- take ---

    def needs(self, layer: Layer, version: int) -> int:
        left = self._average.arrives(self._fragment[layer], version - 1)
        return 0 if left is None else left + 1

    def take(self, layer: Layer, version: int) -> None:
        """The outer step, where an average is due."""
        if self.needs(layer, version) == 0:
            return
        updater = _updater(layer)
        kept = self._average.mixing(version - 1)
        start = self._holder.recording.mark()
        with torch.no_grad():
            for name, parameter in layer.parameters.items():
                carrier = self._carriers[name]
                assert carrier.grad is not None, f"{name} has not been averaged"
                self._outer.step(name, self._common[name], carrier.grad)
                if kept:
                    parameter.lerp_(self._common[name], 1 - kept)
                else:
                    parameter.copy_(self._common[name])
                carrier.grad = None
                for slot in self._average.state:
                    carrier = self._carriers[state_name(name, slot)]
                    if carrier.grad is None:  # on no worker
                        continue
                    mean = carrier.grad.round() if slot == STEP_COUNT else carrier.grad
                    updater.set_slot(parameter, slot, mean)
                    carrier.grad = None
        self._holder.recording.averaged(layer.index, start)

    def state(self) -> dict[str, Tensor]:
        """What the next average needs of earlier ones: at an average, where all workers hold the same."""
        return self._outer.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()`, with the parameters that were common then: this worker holds them already."""
        self._outer.load(state)

    # --- look ---

    @contextmanager
    def common(self) -> Iterator[None]:
        """The mean that an average would give, for as long as it is looked at."""
        local: dict[str, Tensor] = {}
        with torch.no_grad():
            for layer, name, parameter in self._apart():
                local[name] = parameter.detach().clone()
                parts = self._gather.run([self._difference(layer, name, parameter).cpu()])
                mean = torch.stack([part[0] for part in parts]).sum(0)
                parameter.copy_(self._common[name] + mean.to(parameter.device))
        try:
            yield
        finally:
            with torch.no_grad():
                for _, name, parameter in self._apart():
                    parameter.copy_(local[name])

    def _apart(self) -> Iterator[tuple[Layer, str, Parameter]]:
        """The parameters in which workers differ."""
        for layer in self._holder.layers:
            last = layer.version - 1
            if not self._average.holds_common(self._fragment[layer], last):
                for name, parameter in layer.parameters.items():
                    yield layer, name, parameter


def _fragment(layer: Layer, holder: Holder) -> int:
    """Every worker's plan says the same; a layer with nothing that travels is in the first."""
    return holder.choices[layer.units[0].index].layer.fragment if layer.units else 0


def _updater(layer: Layer) -> Updater:
    """The optimizer: between averages it is here, wherever units meet."""
    assert layer.updater is not None
    return layer.updater
