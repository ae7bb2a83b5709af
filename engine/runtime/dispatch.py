"""Which part of the runtime gets which message: one table per lane, filled before peers connect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from engine.plan.description import DTYPE_BYTES
from engine.plan.units import Unit
from engine.runtime.messages import Lane, Message, Payload
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header


class Receiver(Protocol):
    """Something that messages are for."""

    def place(self, header: Header) -> list[memoryview] | None: ...

    def handle(self, header: Header, payload: Payload) -> None: ...


class Dispatch:
    """Routes a lane's messages by kind, and a server exchange's by unit."""

    def __init__(self, endpoint: Endpoint, lane: Lane) -> None:
        self._by_kind: dict[int, Receiver] = {}
        self._by_unit: dict[tuple[int, int], Receiver] = {}
        self._unit_bytes: dict[int, int] = {}
        endpoint.register(lane, place=self._place, handle=self._handle, weigh=self._weigh)

    def add(self, kinds: Iterable[Message], receiver: Receiver, units: Iterable[int] | None = None) -> None:
        """Messages of `kinds` (about `units`, where given) are for `receiver` from now on."""
        for kind in kinds:
            if units is None:
                self._by_kind[kind] = receiver
            else:
                self._by_unit.update({(kind, unit): receiver for unit in units})

    def expect(self, units: Iterable[Unit]) -> None:
        """Say how large the units are that messages will be about."""
        self._unit_bytes.update({unit.index: unit.count * DTYPE_BYTES[unit.dtype] for unit in units})

    def _weigh(self, header: Header) -> int:
        """A message about a unit may complete it, however short it is itself."""
        unit = self._unit_bytes.get(header.unit, 0) if header.layer >= 0 else 0
        return max(header.payload_bytes, unit)

    def _find(self, header: Header) -> Receiver:
        found = self._by_unit.get((header.kind, header.unit)) or self._by_kind.get(header.kind)
        if found is None:
            raise RuntimeError(f"nobody here expects a {Message(header.kind).name} of unit {header.unit}")
        return found

    def _place(self, header: Header) -> list[memoryview] | None:
        return self._find(header).place(header)

    def _handle(self, header: Header, payload: Payload) -> None:
        self._find(header).handle(header, payload)
