"""Host memory: the pieces of a unit as one-dimensional views that a transport can read and write in place.

On the CPU these are views of the parameters and gradients themselves, so nothing is copied. On CUDA they are
pinned mirrors, filled and emptied on a side stream (`pinned_memory.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.codec.base import add, write
from engine.errors import TrainingError
from engine.instrumentation.gate import past_gates
from engine.instrumentation.sharing import Sharing
from engine.plan.units import Segment, Unit
from engine.state.landing import Beside, Landing
from engine.state.presence import Presence
from engine.tensor_bytes import as_bytes, as_tensor, without_history


def present(unit: Unit, mask: bytes) -> list[Segment]:
    """The unit's segments whose presence bit is set (bit i of the mask, little-endian, is segment i). The empty mask,
    which costs nothing on the wire, says that all are present."""
    return [s for i, s in enumerate(unit.segments) if has(mask, i)] if mask else list(unit.segments)


def places(unit: Unit, mask: bytes) -> list[int]:
    """Where in the unit each of the `present` segments begins."""
    starts = accumulate((s.count for s in unit.segments), initial=0)
    return [start for index, start in enumerate(list(starts)[:-1]) if has(mask, index)]


def has(mask: bytes, index: int) -> bool:
    """Whether segment `index` is present."""
    return not mask or bool(mask[index // 8] >> (index % 8) & 1)


def union(left: bytes, right: bytes) -> bytes:
    """Present on either side."""
    if not (left and right):
        return b""
    return bytes(a | b for a, b in zip(left, right, strict=True))


class HostMemory:
    """The units' memory of one worker, with parameters on the CPU."""

    def __init__(
        self, parameters: Mapping[str, Parameter], carriers: Mapping[str, Parameter] | None = None
    ) -> None:
        """`carriers`: whose `.grad` what travels is put into, where it is not the parameters' own gradients."""
        self._parameters = parameters
        self._carriers = carriers or parameters
        self._presence = Presence()
        self.kept = self._presence.kept
        self._creating = threading.Lock()
        """Around making zeros of an absent gradient: threads that receive and threads that handle do so."""
        self.landing = Landing()
        self.sharing = Sharing(parameters)
        self._places: dict[int, tuple[list[int], list[int], list[memoryview]]] = {}
        """By unit: where its parameters lie, in which memory, and their bytes."""

    def when_gradients_are_readable(self, unit: Unit, then: Callable[[], None]) -> None:
        """Call `then` once the unit's gradients can be read on the host: on the CPU, now."""
        then()

    def when_readable(self, tensors: Sequence[Tensor], then: Callable[[list[Tensor]], None]) -> None:
        """Call `then` with the contiguous `tensors` once they can be read on the host: on the CPU, now, as they are."""
        then(list(tensors))

    @past_gates
    def mask(self, unit: Unit, step: int) -> bytes:
        """Which segments have a gradient on this worker in `step`."""
        there = [self._presence.here(s.parameter, self._carriers[s.parameter], step) for s in unit.segments]
        if all(there):
            return b""
        bits = sum(1 << i for i, one in enumerate(there) if one)
        return bits.to_bytes(-(-len(unit.segments) // 8), "little")

    @past_gates
    def leaves(self, unit: Unit) -> None:
        """The unit's gradients, as far as there are any, are about to be taken away."""
        for name in dict.fromkeys(segment.parameter for segment in unit.segments):
            self.kept.leaves(name, self._carriers[name])

    @past_gates
    def gradients(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the present gradients of `segments`."""
        return [self._flat_gradient(s) for s in segments]

    def sums(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of where the summed gradients of `segments` belong; absent gradients become zeros first."""
        return self.device_gradients(segments)

    @past_gates
    def device_gradients(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the gradients on the worker's own device; absent ones become zeros first."""
        with self._creating:
            for segment in segments:
                parameter = self._carriers[segment.parameter]
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        return [self._flat_gradient(s) for s in segments]

    @past_gates
    def drop_gradients(self, segments: Iterable[Segment]) -> None:
        """No worker has a gradient of `segments`. When that is known of all of a parameter, its gradient is forgotten,
        so that its update is skipped."""
        for segment in segments:
            parameter = self._carriers[segment.parameter]
            if self._presence.nowhere(segment, parameter):
                parameter.grad = None

    @past_gates
    def values(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the parameters of `segments`, on the worker's own device."""
        return [self._flat(s.parameter)[s.start : s.stop] for s in segments]

    def _flat(self, name: str) -> Tensor:
        """Raises TrainingError where the model has given the parameter memory that is not contiguous."""
        parameter = self._parameters[name].detach()
        if not parameter.is_contiguous():
            raise TrainingError(
                f"the model has given {name} memory that is not contiguous (strides {parameter.stride()}), and slices"
                " of it travel. Write to the parameter (copy_), or assign .data a contiguous() tensor"
            )
        return parameter.view(-1)

    def parameters(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of where the parameters of `segments` are received."""
        return self.values(segments)

    def landing_places(self, unit: Unit) -> list[memoryview] | None:
        """The bytes of the unit's parameters, to receive into; None where they may not be overwritten now."""
        if not self.landing.may_land(unit):
            return None
        self._about_to_write(unit.segments)
        return self._places_of(unit)

    def land(self, unit: Unit, payload: memoryview | None, then: Callable[[], None]) -> None:
        """The unit's parameters are here: as `payload`, valid during the call, or where `landing_places` said. `then`
        is called once they are in their place: now, or by `before_use`."""
        if payload is not None:
            received = as_tensor(payload, getattr(torch, unit.dtype))
            if not self.landing.may_land(unit):
                self.landing.keep_beside(unit, Beside(received.clone(), then))
                return
            self._write(unit, received)
        then()

    def land_difference(self, unit: Unit, moved: Tensor, then: Callable[[], None]) -> None:
        """The unit's parameters have moved by `moved` (1-D, in memory of its own). `then` as for `land`. Only in
        lockstep, where each is in its place before the next one comes."""
        if not self.landing.may_land(unit):
            self.landing.keep_beside(unit, Beside(moved, then, adds=True))
            return
        self._write(unit, moved, adds=True)
        then()

    def sums_written(self, unit: Unit, segments: Sequence[Segment]) -> None:
        """The sums of the unit's `segments` have been received. On the CPU they are in place."""

    def before_use(self, units: Sequence[Unit]) -> None:
        """The units' parameters or sums are about to be used. What was kept beside goes to its place."""
        for unit in units:
            beside = self.landing.take(unit)
            if beside is not None:
                assert beside.received is not None
                self._write(unit, beside.received, adds=beside.adds)
                beside.then()

    @past_gates
    def is_shared(self, name: str) -> bool:
        """Whether another tensor holds the parameter's memory."""
        return self.sharing.is_shared(name)

    @past_gates
    def _places_of(self, unit: Unit) -> list[memoryview]:
        """Looked up anew only where a parameter has moved."""
        where = [self._parameters[s.parameter].data_ptr() for s in unit.segments]
        kept = self._places.get(unit.index)
        if kept is None or kept[0] != where:
            memory = self.sharing.keeps_views(kept[1] if kept else (), (s.parameter for s in unit.segments))
            places = [as_bytes(p) for p in self.parameters(unit.segments)]
            kept = self._places[unit.index] = where, memory, places
        return kept[2]

    def _about_to_write(self, segments: Sequence[Segment]) -> None:
        """Tell autograd that these parameters change, so that it objects if backward still needs them."""
        for segment in segments:
            torch.autograd.graph.increment_version(self._parameters[segment.parameter])

    def _write(self, unit: Unit, received: Tensor, *, adds: bool = False) -> None:
        self._about_to_write(unit.segments)
        put = add if adds else write
        put(received, self.parameters(unit.segments))

    def _flat_gradient(self, segment: Segment) -> Tensor:
        gradient = self._carriers[segment.parameter].grad
        assert gradient is not None, f"the gradient of {segment.parameter} was taken away while it was summed"
        flat = without_history(gradient)
        if flat.ndim != 1:
            flat = flat.view(-1)
        return flat if segment.count == len(flat) else flat[segment.start : segment.stop]


def contiguous_parameters(parameters: Mapping[str, Parameter]) -> list[str]:
    """Lay every parameter out contiguously, so that slices are views; answers the names that were not."""
    changed = []
    for name, parameter in parameters.items():
        if not parameter.is_contiguous():
            with torch.no_grad():
                parameter.data = parameter.data.contiguous()
            changed.append(name)
    return changed
