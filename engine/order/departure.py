"""Departure: when a unit whose gradient is complete leaves the worker."""

from __future__ import annotations

from collections.abc import Callable

from engine.plan.units import Unit


class WhenReady:
    """As soon as its gradient is there: wait-free backpropagation (papers 004, section 2)."""

    def __init__(self, leave: Callable[[Unit], None]) -> None:
        self._leave = leave

    def ready(self, unit: Unit) -> None:
        self._leave(unit)

    def backward_ended(self) -> None:
        """Nothing is held back."""


class AfterBackward:
    """When the whole backward pass has ended, in the order in which the units became ready."""

    def __init__(self, leave: Callable[[Unit], None]) -> None:
        self._leave = leave
        self._held: list[Unit] = []

    def ready(self, unit: Unit) -> None:
        self._held.append(unit)

    def backward_ended(self) -> None:
        held, self._held = self._held, []
        for unit in held:
            self._leave(unit)
