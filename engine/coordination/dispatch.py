"""Which part of the runtime gets which message: one table per lane, filled before peers connect."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from engine.plan.description import DTYPE_BYTES, ModelDescription
from engine.plan.units import Unit
from engine.protocol.messages import Lane, Message, Payload
from engine.transport.endpoint import Endpoint
from engine.transport.errors import ProtocolError
from engine.transport.message import Header


class Receiver(Protocol):
    """Something that messages are for."""

    def place(self, header: Header) -> list[memoryview] | None: ...

    def handle(self, header: Header, payload: Payload) -> None: ...


_OF_UNITS = frozenset({Message.PUSH, Message.ANSWER, Message.ROUND, Message.UPDATE})
"""What carries a unit, or a part of one."""
BESIDE_BYTES = 1 << 12
"""Of such a message, beyond its elements as they are: of a part of a few elements, a codec's scales are longer than
what it saves, and finished sums of several ranks, each with its own, share a message."""
_META_BYTES = 1 << 20
"""Of such a message: a mask with a byte for each piece of the unit."""


def largest_message(model: ModelDescription, samples: int) -> int:
    """Bytes that no message outside the units exceeds: state of an evaluation or a start, factors, activations and
    targets of a pass of `samples`. A generous bound, against headers that ask for all of the memory."""
    state = sum(math.prod(p.shape) * 8 for layer in model.layers for p in layer.parameters)
    passed = samples * sum(layer.output_bytes for layer in model.layers)
    return 2**30 + 8 * (state + passed)


class Dispatch:
    """Routes a lane's messages by kind, and a server exchange's by unit."""

    def __init__(self, endpoint: Endpoint, lane: Lane, largest_bytes: int) -> None:
        """`largest_bytes`: of a message that is not about a unit, or is factors (`largest_message`)."""
        self._largest_bytes = largest_bytes
        self._by_kind: dict[int, Receiver] = {}
        self._by_unit: dict[tuple[int, int], Receiver] = {}
        self._unit_bytes: dict[int, int] = {}
        endpoint.register(lane, place=self._place, handle=self._handle, weigh=self._weigh, allow=self._allow)

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

    def _allow(self, header: Header, meta_bytes: int) -> None:
        """Refuse what announces more than the plan lets it have, before memory is taken for it."""
        if header.kind in _OF_UNITS:
            known = self._unit_bytes.get(header.unit)
            largest, meta = 0 if known is None else known + BESIDE_BYTES, _META_BYTES
        else:
            largest, meta = self._largest_bytes, self._largest_bytes
        for what, announced, limit in (
            ("payload", header.payload_bytes, largest),
            ("meta", meta_bytes, meta),
        ):
            if announced > limit:
                raise ProtocolError(
                    f"a message of kind {header.kind} about unit {header.unit} announces {announced} bytes of {what};"
                    f" the plan allows {limit}: a party that does not follow the plan"
                )

    def _find(self, header: Header) -> Receiver:
        found = self._by_unit.get((header.kind, header.unit)) or self._by_kind.get(header.kind)
        if found is None:
            raise RuntimeError(f"nobody here expects a {Message(header.kind).name} of unit {header.unit}")
        return found

    def _place(self, header: Header) -> list[memoryview] | None:
        return self._find(header).place(header)

    def _handle(self, header: Header, payload: Payload) -> None:
        self._find(header).handle(header, payload)
