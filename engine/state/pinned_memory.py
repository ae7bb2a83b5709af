"""Pinned memory: the units' memory of a worker on CUDA, mirrored on the host for the transport.

Gradients go down and results come up on two side streams, so that copies overlap computation and each other:
    down   waits until backward has computed the unit's gradients, copies them to the mirror, then the unit leaves
    up     copies what was received to the parameter (or its gradient); forward waits for that copy's event
A parameter is overwritten only after `down` has passed its gradient, hence after its last use in backward.
Memory on the host: one pinned copy of the parameters and one of the gradients.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.codec.base import write
from engine.instrumentation.gate import past_gates
from engine.plan.units import Segment, Unit
from engine.state.host_memory import HostMemory
from engine.state.landing import Beside
from engine.tensor_bytes import as_bytes, as_tensor


class PinnedMemory(HostMemory):
    """As HostMemory, for parameters on a CUDA device."""

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        carriers: Mapping[str, Parameter] | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        """`failed` is told what goes wrong in the staging thread."""
        super().__init__(parameters, carriers)
        self._failed = failed
        self._device = next(iter(parameters.values())).device
        self._down = torch.cuda.Stream(self._device)
        self._up = torch.cuda.Stream(self._device)
        self._values = {name: _mirror(p) for name, p in parameters.items()}
        self._gradients = {name: _mirror(p) for name, p in self._carriers.items()}
        self._bytes: dict[int, list[memoryview]] = {}
        """By unit: the mirror's bytes, to receive parameters into."""
        self._arrivals: dict[int, torch.cuda.Event] = {}
        self._copying: queue.SimpleQueue[tuple[torch.cuda.Event, Callable[[], None]]] = queue.SimpleQueue()
        threading.Thread(target=self._release, name="staging", daemon=True).start()

    @past_gates
    def when_gradients_are_readable(self, unit: Unit, then: Callable[[], None]) -> None:
        """Copy the unit's gradients down once backward has computed them; `then` runs in the staging thread."""
        here = [s for s in unit.segments if self._presence.was_here(s.parameter)]
        self._down.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._down):
            for segment, gradient in zip(here, super().gradients(here), strict=True):
                gradient.record_stream(self._down)
                self._mirror_of(segment).copy_(gradient, non_blocking=True)
            copied = self._down.record_event()
        self._copying.put((copied, then))

    def when_readable(self, tensors: Sequence[Tensor], then: Callable[[list[Tensor]], None]) -> None:
        """Copy `tensors` down once they have been computed; `then` gets the copies, in the staging thread."""
        self._down.wait_stream(torch.cuda.current_stream(self._device))
        copies = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
        with torch.cuda.stream(self._down):
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.record_stream(self._down)
                copy.copy_(tensor, non_blocking=True)
            copied = self._down.record_event()
        self._copying.put((copied, lambda: then(copies)))

    def gradients(self, segments: Sequence[Segment]) -> list[Tensor]:
        return [self._mirror_of(s) for s in segments]

    @past_gates
    def sums(self, segments: Sequence[Segment]) -> list[Tensor]:
        for segment in segments:
            if not self._presence.was_here(segment.parameter):
                self._mirror_of(segment).zero_()
        return self.gradients(segments)

    def parameters(self, segments: Sequence[Segment]) -> list[Tensor]:
        return [self._values[s.parameter][s.start : s.stop] for s in segments]

    def landing_places(self, unit: Unit) -> list[memoryview]:
        """The mirror's: nobody looks there."""
        kept = self._bytes.get(unit.index)
        if kept is None:
            kept = self._bytes[unit.index] = [as_bytes(p) for p in self.parameters(unit.segments)]
        return kept

    def land(self, unit: Unit, payload: memoryview | None, then: Callable[[], None]) -> None:
        """As HostMemory.land; what was received goes up to the device, or stays in the mirror until it may."""
        if payload is not None:
            write(as_tensor(payload, getattr(torch, unit.dtype)), self.parameters(unit.segments))
        if self.landing.may_land(unit):
            self._copy_up(unit)
            then()
        else:
            self.landing.keep_beside(unit, Beside(None, then))

    def land_difference(self, unit: Unit, moved: Tensor, then: Callable[[], None]) -> None:
        """As HostMemory.land_difference; the mirror brings it up, and it is added there."""
        write(moved, self.parameters(unit.segments))
        if self.landing.may_land(unit):
            self._copy_up(unit, adds=True)
            then()
        else:
            self.landing.keep_beside(unit, Beside(None, then, adds=True))

    def sums_written(self, unit: Unit, segments: Sequence[Segment]) -> None:
        """Copy the received sums up into the gradients."""
        targets = super().device_gradients(segments)
        with torch.no_grad(), torch.cuda.stream(self._up):
            self._up.wait_stream(self._down)
            for target, value in zip(targets, self.gradients(segments), strict=True):
                target.copy_(value, non_blocking=True)
            self._arrivals[unit.index] = self._up.record_event()

    def before_use(self, units: Sequence[Unit]) -> None:
        """Let the device's current stream wait for what is still on its way up."""
        stream = torch.cuda.current_stream(self._device)
        for unit in units:
            if (beside := self.landing.take(unit)) is not None:
                self._up.wait_stream(stream)  # someone may still look at what was held
                self._copy_up(unit, adds=beside.adds)
                beside.then()
            arrival = self._arrivals.pop(unit.index, None)
            if arrival is not None:
                stream.wait_event(arrival)

    @past_gates
    def _copy_up(self, unit: Unit, *, adds: bool = False) -> None:
        """Copy the received parameters up, or what they have moved by."""
        self._about_to_write(unit.segments)
        with torch.no_grad(), torch.cuda.stream(self._up):
            self._up.wait_stream(self._down)
            for segment, value in zip(unit.segments, self.parameters(unit.segments), strict=True):
                there = self._parameters[segment.parameter].detach().view(-1)[segment.start : segment.stop]
                if adds:
                    there.add_(value.to(self._device, non_blocking=True))
                else:
                    there.copy_(value, non_blocking=True)
            self._arrivals[unit.index] = self._up.record_event()

    def _mirror_of(self, segment: Segment) -> Tensor:
        return self._gradients[segment.parameter][segment.start : segment.stop]

    def _release(self) -> None:
        """Let units leave as their copies end, in the order in which they were issued."""
        try:
            while True:
                copied, then = self._copying.get()
                copied.synchronize()
                then()
        except BaseException as error:  # the forward pass that waits for the unit raises it
            self._failed(error)


def _mirror(parameter: Parameter) -> Tensor:
    return torch.empty(parameter.numel(), dtype=parameter.dtype, pin_memory=True)
