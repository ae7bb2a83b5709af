"""Backpropagation through time in bounded memory: which states of a recurrent layer to store, so that fewest steps run.

Gruslys et al., "Memory-efficient backpropagation through time" (2016), which papers 002 name as [8]. A step's hidden
state is what the next step takes; its internal state is all that its backward needs, its hidden state included. With
C(t, m) the least forward steps for t steps and m free slots, state 0 given and the step at work not counted,

    C(t, m) = min  t (t + 1) / 2                                             nothing is stored
                   y + C(t - y, m - hidden) + C(y, m),         1 <= y < t    state y is stored
                   y + C(t - y, m - internal) + C(y - 1, m),   1 <= y <= t   step y's internal state is

which is hidden-state storage where `internal` is None (section 3.1; the paper's m counts state 0, too), internal-state
storage where `hidden` is (3.2), and mixed storage where neither is (3.3). The step inside each backward counts, so no
plan costs less than t. Unlike the paper, slots are whole numbers of any unit, and so are the two sizes.

Costs t² m / 2 additions for the table, once for all budgets up to m; 2 t for the program. It loses where steps are not
alike (see `chain.py`) and where one library call runs all of them, as cuDNN's recurrent layers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from engine.budget.instructions import Back, Hold, Instruction, Run, Save
from engine.errors import UserError

MOST_STEPS: Final = 20_000
MOST_CELLS: Final = 50_000_000
"""Of a table: 400 MB while it is made."""
MOST_SUMS: Final = 2 * 10**9
"""That are looked at for one: a few seconds."""
_AT_ONCE: Final = 2**15
"""Sums that are looked at together: they stay in a core's cache."""


class Sequence:
    """Plans for `steps` equal steps, or fewer, and up to `slots` slots, of which a stored hidden state takes `hidden`
    and an internal one `internal`; None where such states are not stored. Raises UserError for what no table is made
    of."""

    def __init__(
        self, steps: int, slots: int, *, hidden: int | None = 1, internal: int | None = None
    ) -> None:
        _require("steps", steps, 1)
        _require("slots", slots, 0)
        sizes = [size for size in (hidden, internal) if size is not None]
        for size in sizes:
            _require("the slots of a state", size, 1)
        self.steps = steps
        self._hidden, self._internal = hidden, internal
        self.slots = min(slots, steps * max(sizes, default=0))
        """Of use: with more nothing gets cheaper."""
        room = min(MOST_CELLS // (steps + 1) - 1, 2 * MOST_SUMS // steps**2)
        if steps > MOST_STEPS or self.slots > room:
            raise UserError(
                "slots",
                slots,
                f"a table has {MOST_STEPS:,} steps at most, and that of {steps:,} has room for {max(0, room):,} slots",
                "Count memory in larger slots, or take several steps as one",
            )
        self._table = self._filled()

    def cost(self, slots: int | None = None, *, steps: int | None = None) -> int:
        """The least number of forward steps in so many slots, and for so many steps; None: all of them."""
        return int(self._table[self._of(steps), self._within(slots)])

    def program(self, slots: int | None = None, *, steps: int | None = None) -> Iterator[Instruction]:
        """What to do, with slots and steps as `cost` takes them. A step that is saved and goes backward at once takes
        no slot."""
        todo: list[Instruction | tuple[int, int, int]] = [(0, self._of(steps), self._within(slots))]
        while todo:
            item = todo.pop()
            if not isinstance(item, tuple):
                yield item
                continue
            start, steps, free = item
            if steps:
                todo.extend(reversed(self._part(start, steps, free)))

    def _of(self, steps: int | None) -> int:
        if steps is None:
            return self.steps
        _require("steps", steps, 1)
        if steps > self.steps:
            raise UserError(
                "steps", steps, f"the table has {self.steps}", "Make one for the longest sequence"
            )
        return steps

    def _within(self, slots: int | None) -> int:
        if slots is None:
            return self.slots
        _require("slots", slots, 0)
        return min(slots, self.slots)

    def _filled(self) -> np.ndarray:
        """C by steps and slots."""
        table = np.zeros((self.steps + 1, self.slots + 1), dtype=np.int32)
        run = table.copy()  # C(y, m) + y
        rows = max(1, _AT_ONCE // (self.slots + 1))
        sums = np.empty((rows, self.slots + 1), dtype=np.int32)
        for steps in range(1, self.steps + 1):
            row = table[steps]
            row[:] = steps * (steps + 1) // 2
            for size, after in self._kinds():
                wide = self.slots + 1 - size
                if wide < 1:
                    continue
                for first in range(1, steps + after, rows):
                    last = min(first + rows, steps + after)  # y = first .. last - 1
                    right = table[steps - last + 1 : steps - first + 1, :wide][::-1]
                    left = run[first - after : last - after, size:]
                    both = np.add(right, left, out=sums[: last - first, :wide])
                    np.minimum(row[size:], both.min(axis=0) + after, out=row[size:])
            run[steps] = row + steps
        return table

    def _kinds(self) -> Iterator[tuple[int, int]]:
        """(slots of a state, whether the step that made it needs no other run) of what may be stored."""
        if self._hidden is not None:
            yield self._hidden, 0
        if self._internal is not None:
            yield self._internal, 1

    def _part(self, start: int, steps: int, free: int) -> list[Instruction | tuple[int, int, int]]:
        """The first instructions for steps [start, start + steps), and the parts that are left, in their order."""
        least = int(self._table[steps, free])
        if least == steps * (steps + 1) // 2:
            found: list[Instruction | tuple[int, int, int]] = []
            for last in range(start + steps - 1, start - 1, -1):
                found += [*_run(start, last), Save(last), Back(last)]
            return found
        for size, after in self._kinds():
            most = steps - 1 + after
            if most < 1 or size > free:
                continue
            y = np.arange(1, most + 1)
            costs = y + self._table[steps - y, free - size] + self._table[y - after, free]
            best = int(y[costs.argmin()])
            if costs[best - 1] == least:
                middle = start + best
                right = (middle, steps - best, free - size)
                if after:
                    left = (start, best - 1, free)
                    return [*_run(start, middle - 1), Save(middle - 1), right, Back(middle - 1), left]
                return [*_run(start, middle), Hold(middle), right, (start, best, free)]
        raise AssertionError("no plan has the cost in the table")


def _run(start: int, stop: int) -> list[Run]:
    return [Run(start, stop)] if stop > start else []


def _require(what: str, value: int, least: int) -> None:
    if value < least:
        raise UserError(what, value, f"must be {least} or more", f"Give a number from {least}")
