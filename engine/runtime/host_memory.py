"""Host memory: the pieces of a unit as one-dimensional views that a transport can read and write in place.

On the CPU these are views of the parameters and gradients themselves, so nothing is copied. On CUDA they are
pinned mirrors, filled and emptied on a side stream (`pinned_memory.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.plan.units import Segment, Unit


def as_bytes(part: Tensor) -> memoryview:
    """A contiguous 1-D host tensor as the bytes that it occupies, without a copy."""
    return memoryview(part.detach().view(torch.uint8).numpy())  # type: ignore[arg-type]


def as_tensor(payload: memoryview | None, dtype: torch.dtype) -> Tensor:
    """Received bytes as a 1-D tensor of `dtype`, without a copy; None is an empty payload."""
    return torch.frombuffer(payload, dtype=dtype) if payload else torch.empty(0, dtype=dtype)


def present(unit: Unit, mask: bytes) -> list[Segment]:
    """The unit's segments whose presence bit is set (bit i of the mask, little-endian, is segment i). The empty mask,
    which costs nothing on the wire, says that all are present."""
    return [s for i, s in enumerate(unit.segments) if has(mask, i)] if mask else list(unit.segments)


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

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = parameters
        self._places: dict[int, tuple[list[int], list[memoryview]]] = {}

    def when_gradients_are_readable(self, unit: Unit, then: Callable[[], None]) -> None:
        """Call `then` once the unit's gradients can be read on the host: on the CPU, now."""
        then()

    def when_readable(self, tensors: Sequence[Tensor], then: Callable[[list[Tensor]], None]) -> None:
        """Call `then` with the contiguous `tensors` once they can be read on the host: on the CPU, now, as they are."""
        then(list(tensors))

    def mask(self, unit: Unit) -> bytes:
        """Which segments have a gradient on this worker in this step."""
        there = [self._parameters[s.parameter].grad is not None for s in unit.segments]
        if all(there):
            return b""
        bits = sum(1 << i for i, one in enumerate(there) if one)
        return bits.to_bytes(-(-len(unit.segments) // 8), "little")

    def gradients(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the present gradients of `segments`."""
        return [self._flat_gradient(s.parameter)[s.start : s.stop] for s in segments]

    def sums(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of where the summed gradients of `segments` belong; absent gradients become zeros first."""
        return self.device_gradients(segments)

    def device_gradients(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the gradients on the worker's own device; absent ones become zeros first."""
        for segment in segments:
            parameter = self._parameters[segment.parameter]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        return [self._flat_gradient(s.parameter)[s.start : s.stop] for s in segments]

    def drop_gradients(self, segments: Iterable[Segment]) -> None:
        """Forget the gradients of parameters that no worker used in this step, so that their update is skipped."""
        for segment in segments:
            self._parameters[segment.parameter].grad = None

    def parameters(self, segments: Sequence[Segment]) -> list[Tensor]:
        """Views of the parameters of `segments`, for reading or for writing what was received."""
        return [self._parameters[s.parameter].detach().view(-1)[s.start : s.stop] for s in segments]

    def places(self, unit: Unit) -> list[memoryview]:
        """The bytes of the unit's parameters, to receive into; looked up anew only where a parameter has moved."""
        where = [self._parameters[s.parameter].data_ptr() for s in unit.segments]
        kept = self._places.get(unit.index)
        if kept is None or kept[0] != where:
            kept = self._places[unit.index] = where, [as_bytes(p) for p in self.parameters(unit.segments)]
        return kept[1]

    def about_to_write(self, segments: Sequence[Segment]) -> None:
        """Tell autograd that these parameters change, so that it objects if backward still needs them."""
        for segment in segments:
            torch.autograd.graph.increment_version(self._parameters[segment.parameter])

    def parameters_written(self, unit: Unit) -> None:
        """The unit's parameters have been received. On the CPU they are in place."""

    def sums_written(self, unit: Unit, segments: Sequence[Segment]) -> None:
        """The sums of the unit's `segments` have been received. On the CPU they are in place."""

    def before_use(self, units: Sequence[Unit]) -> None:
        """The units' parameters or sums are about to be used. On the CPU they are in place."""

    def _flat_gradient(self, name: str) -> Tensor:
        parameter = self._parameters[name]
        gradient = parameter.grad
        assert gradient is not None
        check_dense(name, gradient)
        if not gradient.is_contiguous():
            parameter.grad = gradient = gradient.contiguous()
        return gradient.detach().view(-1)


def check_dense(name: str, gradient: Tensor) -> None:
    """Raises TrainingError for a gradient without an element for each of the parameter's."""
    if gradient.layout != torch.strided:
        raise TrainingError(
            f"the gradient of {name} is {gradient.layout}; only dense gradients are exchanged."
            " Build the layer with sparse=False"
        )


def contiguous_parameters(parameters: Mapping[str, Parameter]) -> list[str]:
    """Lay every parameter out contiguously, so that slices are views; answers the names that were not."""
    changed = []
    for name, parameter in parameters.items():
        if not parameter.is_contiguous():
            with torch.no_grad():
                parameter.data = parameter.data.contiguous()
            changed.append(name)
    return changed
