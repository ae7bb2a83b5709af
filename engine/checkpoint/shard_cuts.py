"""A shard's side of a consistent cut.

In lockstep nobody is stopped: a unit's state after a step is complete once somebody has had the answer to it, which
is encoded once, for all, and stays so until the first contribution to a later step is taken: who sends that has had the
answer. So each unit is captured just before that contribution is taken, in the shard's lane; workers capture themselves
between the two steps. A cut that is not after steps which all know is captured at worker 0's word.

Where workers drift, each stops at the end of a step of its own, and says how many it has contributed. When all of that
has come, everything is captured, and they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

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
        self._paused: dict[int, int] = {}
        """By rank of who drifts and waits: how many steps it has contributed."""
        self._pausing = first

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

    def paused(self, rank: int, clock: int, cut: int) -> None:
        """A worker that drifts has come to the cut, and contributes nothing to its step `clock` before it is made."""
        self._pausing = cut
        self._paused[rank] = clock

    def complete(self, workers: int, contributed: Iterable[Mapping[int, int]]) -> int | None:
        """The cut for which all workers have paused, where all has come that they have contributed; `contributed`: of
        each home, how many steps of each."""
        if len(self._paused) < workers:
            return None
        if any(home[rank] != clock for home in contributed for rank, clock in self._paused.items()):
            return None
        self._paused.clear()
        return self._pausing

    def close(self) -> None:
        """Nobody contributes any more."""
        self._writer.close()
