"""none: one worker holds the only replica, so its gradient is the sum. Bytes: none."""

from __future__ import annotations

from engine.exchange.base import Surroundings
from engine.plan.units import Unit
from engine.protocol.messages import Message, Payload
from engine.transport.message import Header


class NoExchange:
    """The sum of one."""

    kinds: tuple[Message, ...] = ()

    def __init__(self, context: Surroundings) -> None:
        self._versions = context.versions

    def begin_step(self, step: int) -> None:
        """Nothing to ask for."""

    def start(self, unit: Unit, step: int) -> None:
        self._versions.advance(unit.index, step + 1)

    def backward_ended(self) -> None:
        """Nothing waits."""

    def finished(self, steps: int) -> None:
        """All workers have the same already."""

    def place(self, header: Header) -> None:
        """Nothing arrives."""

    def handle(self, header: Header, payload: Payload) -> None:
        raise AssertionError(f"no message was expected: {header}")

    def finish(self, unit: Unit, step: int) -> None:
        """Nothing is left to compute."""

    def missing(self, unit: Unit) -> str:
        return "its own backward pass did not end"

    def close(self) -> None:
        """Nothing is held."""
