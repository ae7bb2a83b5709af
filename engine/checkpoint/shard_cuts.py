"""A shard's side of a consistent cut, made without stopping anybody.

In lockstep a unit's state after a step is complete once somebody has had the answer to it, which is encoded once, for
all, and stays so until the first contribution to a later step is taken: who sends that has had the answer. So each unit
is captured just before that contribution is taken, in the shard's lane; workers capture themselves between the two
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor

from engine.checkpoint.part import Part
from engine.checkpoint.writer import Writer


class ShardCuts:
    """One shard's."""

    def __init__(self, writer: Writer, *, every: int | None, units: Collection[int], first: int) -> None:
        """A cut after each `every` steps, where there are such. `units`: of the shard. `first`: the step that workers
        begin with."""
        self._writer = writer
        self._every = every
        self._units = len(units)
        self._captured = dict.fromkeys(units, first)
        """By unit: the last cut that it is in, or has begun with."""
        self._parts: dict[int, tuple[Part, set[int]]] = {}
        """By cut: what has been captured, and of which units."""

    def reached(self, unit: int, step: int, state: Callable[[], dict[str, Tensor]]) -> None:
        """A worker's contribution to `step` has come, and has not been taken."""
        if self._every is not None:
            self.at(unit, step - step % self._every, state)

    def at(self, unit: int, cut: int, state: Callable[[], dict[str, Tensor]]) -> None:
        """What the unit has is what it has after so many steps."""
        if cut <= self._captured[unit]:
            return
        self._captured[unit] = cut
        part, units = self._parts.setdefault(cut, (Part(), set()))
        part.put(str(unit), state())
        units.add(unit)
        if len(units) == self._units:
            del self._parts[cut]
            self._writer.write(cut, part)

    def close(self) -> None:
        """Nobody contributes any more."""
        self._writer.close()
