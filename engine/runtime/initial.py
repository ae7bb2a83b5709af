"""The common start: worker 0's parameters and buffers, handed to everybody before the first step. And, the other way,
what a device has trained, handed to worker 0 after the last one."""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Iterable, Mapping

import torch
from torch import Tensor

from engine.runtime.host_memory import as_bytes
from engine.runtime.messages import Lane, Message, Payload
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class InitialState:
    """Named tensors on the host, the same names and shapes on every party that takes part."""

    def __init__(
        self, tensors: Mapping[str, Tensor], deadline_s: float, kind: Message = Message.INIT
    ) -> None:
        """`tensors`: contiguous host tensors that the received values are written into, or sent from."""
        self.kinds = (kind,)
        self.tensors = tensors
        self._names = list(tensors)
        self._left = {i for i, t in enumerate(tensors.values()) if t.numel()}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._deadline_s = deadline_s

    def place(self, header: Header) -> list[memoryview]:
        return [self._bytes(header.unit)]

    def handle(self, header: Header, payload: Payload) -> None:
        with self._changed:
            self._left.discard(header.unit)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def send(
        self, endpoint: Endpoint, parties: Iterable[tuple[int, Lane]], only: Container[str] | None = None
    ) -> None:
        """Send every tensor, or `only` those of these names, to `parties`."""
        for party, lane in parties:
            for unit, name in enumerate(self._names):
                if self.tensors[name].numel() and (only is None or name in only):
                    view = self._bytes(unit)
                    header = Header(
                        kind=self.kinds[0],
                        lane=lane,
                        origin=endpoint.index,
                        unit=unit,
                        payload_bytes=len(view),
                    )
                    endpoint.send(party, header, [view])

    def wait(self, sender: str) -> None:
        """Block until everything is there. Raises what ended the connection, or TimeoutError naming the `sender`."""
        end = time.monotonic() + self._deadline_s
        with self._changed:
            while self._left:
                if self._failure is not None:
                    raise self._failure
                if not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    names = ", ".join(self._names[i] for i in sorted(self._left)[:3])
                    raise TimeoutError(
                        f"{names} did not arrive within {self._deadline_s:.0f} s from {sender}"
                    )

    def forget(self) -> None:
        """Let go of the tensors: nobody will send or ask for them again."""
        self.tensors = {}

    def _bytes(self, unit: int) -> memoryview:
        return as_bytes(self.tensors[self._names[unit]].detach().view(-1))


def host_state(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of all parameters and buffers where they are on the CPU and contiguous, else host copies of them."""
    found = {}
    for name, tensor in {**parameters, **buffers}.items():
        data = tensor.detach()
        found[name] = data if data.device.type == "cpu" and data.is_contiguous() else data.cpu().contiguous()
    return found


def empty_state(shapes: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Tensor]:
    """Room for tensors of the given shapes and types, for a server that has no model."""
    return {name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, (shape, dtype) in shapes.items()}
