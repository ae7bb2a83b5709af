"""The common start: worker 0's parameters and buffers, handed to everybody before the first step."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from engine.launch import Launch
from engine.protocol.messages import Lane, Message, Payload
from engine.runtime.party import PartyBase, exchanged_parameters
from engine.tensor_bytes import as_bytes
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

    def send(self, endpoint: Endpoint, parties: Iterable[tuple[int, Lane]]) -> None:
        """Send every tensor to `parties`."""
        for party, lane in parties:
            for unit, name in enumerate(self._names):
                if self.tensors[name].numel():
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

    def write_into(self, module: nn.Module) -> None:
        """Give the module's parameters and buffers these values."""
        with torch.no_grad():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                tensor.copy_(self.tensors[name])

    def forget(self) -> None:
        """Let go of the tensors: nobody will send or ask for them again."""
        self.tensors = {}

    def _bytes(self, unit: int) -> memoryview:
        return as_bytes(self.tensors[self._names[unit]].detach().view(-1))


def share(initial: InitialState, model: nn.Module, launch: Launch, base: PartyBase) -> None:
    """Worker 0's values of `model` become everybody's; dedicated servers get those that they keep."""
    if base.party.rank != 0:
        initial.wait(base.names[0])
        initial.write_into(model)
        return
    others = [p for p in launch.parties if p.index != base.party.index]
    initial.send(base.endpoint, [(p.index, Lane.WORKER) for p in others if p.rank is not None])
    servers = [(p.index, Lane.SERVER) for p in others if p.rank is None and p.shard is not None]
    if servers:
        # In the description's order: a server knows no other, and messages carry positions only.
        parameters = {name: initial.tensors[name] for name in exchanged_parameters(launch)}
        InitialState(parameters, launch.deadline_s).send(base.endpoint, servers)


def first_values(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of `module`, each once, as `host_state`."""
    return host_state(dict([*module.named_parameters(), *module.named_buffers()]))


def untrained(module: nn.Module) -> int:
    """A checksum of the buffers, and of the parameters that are not trained."""
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    found = zlib.crc32(b"")
    for name, tensor in host_state({**frozen, **dict(module.named_buffers())}).items():
        found = zlib.crc32(as_bytes(tensor.view(-1)), zlib.crc32(name.encode(), found))
    return found


def host_state(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of all tensors where they are on the CPU and contiguous, else host copies of them."""
    found = {}
    for name, tensor in tensors.items():
        data = tensor.detach()
        found[name] = data if data.device.type == "cpu" and data.is_contiguous() else data.cpu().contiguous()
    return found


def empty_state(shapes: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Tensor]:
    """Room for tensors of the given shapes and types, for a server that has no model."""
    return {name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, (shape, dtype) in shapes.items()}
