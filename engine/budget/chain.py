"""A chain of unequal stages in bounded memory: what of each is stored, so that a pass over it takes the least time.

Beaumont et al., "Optimal checkpointing for heterogeneous chains" (2019, the solver is called rotor): the *persistent*
schedules, in which what is stored stays until backward has used it. (Without that rule the problem is NP-hard.) For
stages i..j with state i given, beside the budget, and the gradient of j's output there from the beginning,

    C(i, j, m) = min  f_i + C(i+1, j, m - saved_i) + b_i                       all that backward of i needs is saved
                      Σ_{i<=l<k} f_l + C(k, j, m - x_k) + C(i, k-1, m)         i < k <= j: state k is held

where m has room for what runs: x_{j+1} + x_l + x_{l+1} + forward_extra_l of each stage l that is passed (x_i is not
counted), x_{j+1} + saved_i + forward_extra_i where i is saved, x_{i+1} + saved_i + backward_extra_i in its backward.

m is counted in slots: bytes, where saving everything takes few of them, else as many as there are, with sizes rounded
so that sums of neighbours are right, and in finer tables for smaller budgets. What is rounded decides nothing but which
schedules are known: one for each number of slots, the one that saves everything, and the one with the least peak, which
is found in bytes. Each is gone through in bytes, and a budget takes the fastest that fits: a smaller budget never has
a higher peak or a shorter time.

Costs L³ m / 6 additions and 8 L² m bytes for L stages, once for all budgets. It loses where skip connections leave no
stages that hand on one state each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from engine.budget.chain_table import SAVED, Choice, Part, Sizes, Table
from engine.budget.instructions import Back, Hold, Instruction, Run, Save
from engine.errors import UserError

MOST_STAGES: Final = 400
_FINER: Final = 6
"""How many times finer the next table is, for smaller budgets."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage. The last one of a chain is the loss, so that its output is small."""

    forward_ns: int
    backward_ns: int
    output_bytes: int
    """Its output, and the gradient of it."""
    saved_bytes: int
    """All that its backward needs beside its input, its output included."""
    forward_extra_bytes: int = 0
    """What it holds beside its input and what stays of it, while it runs."""
    backward_extra_bytes: int = 0
    """The same in its backward, beside its input, what was saved, and its output's gradient: its input's gradient
    belongs here."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0:
                raise UserError(name, value, "must not be negative", "Give 0 where there is nothing")
        if self.saved_bytes < self.output_bytes:
            raise UserError(
                "saved_bytes",
                self.saved_bytes,
                f"has the output in it, {self.output_bytes:,} bytes",
                "Add them",
            )


class Schedule(NamedTuple):
    """A way to go through a chain."""

    time_ns: int
    peak_bytes: int
    """State 0 is not counted."""
    program: tuple[Instruction, ...]


class Chain:
    """The schedules of one chain. Raises UserError where it has no stages, or too many."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        count = len(stages)
        if not 1 <= count <= MOST_STAGES:
            rule = f"a chain has 1 to {MOST_STAGES} stages"
            raise UserError("stages", count, rule, "Take several layers as one stage")
        self._forward = [stage.forward_ns for stage in stages]
        self._backward = [stage.backward_ns for stage in stages]
        self._out = [stage.output_bytes for stage in stages]
        self._state = [0, *self._out[:-1]]
        self._saved = [stage.saved_bytes for stage in stages]
        self._extra = [stage.forward_extra_bytes for stage in stages]
        self._extra_back = [stage.backward_extra_bytes for stage in stages]
        self._sum = np.concatenate([[0], np.cumsum(self._forward, dtype=np.int64)])
        """Of the stages' forward times before each."""
        self._passing = self._passed()
        self._least = self._least_peaks()

    @property
    def least_bytes(self) -> int:
        """The least peak that a schedule has."""
        return int(self._least[0, -1])

    def schedule(self, budget_bytes: int) -> Schedule:
        """The fastest one known whose peak is within the budget. Raises UserError where there is none, with the least
        peak."""
        for schedule in self.schedules:
            if schedule.peak_bytes <= budget_bytes:
                return schedule
        raise UserError(
            "budget",
            budget_bytes,
            f"no schedule needs less than {self.least_bytes:,} bytes",
            "Give that, or more",
        )

    @cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """All that are worth knowing: each is slower than the one before it, and has a lower peak."""
        last = len(self._out) - 1
        saves: list[Instruction] = [*map(Save, range(last + 1)), *map(Back, range(last, -1, -1))]
        everything = self.gone_through(saves)
        found = [everything, self.gone_through(self._program((0, last, 0), self._least_choice))]
        sizes, most, done = self._sizes(), everything.peak_bytes, False
        while not done:
            table = Table(sizes, most)
            done = table.exact or most <= _FINER * self.least_bytes
            better = np.isfinite(table.costs) & (table.costs < np.append(np.inf, table.costs[:-1]))
            for free in np.flatnonzero(better).tolist():
                if done or free * table.unit > most // _FINER:
                    found.append(self.gone_through(self._program((0, last, free), table.choice)))
            most //= _FINER
        kept: list[Schedule] = []
        for schedule in sorted(found, key=lambda each: each[:2]):
            if not kept or schedule.peak_bytes < kept[-1].peak_bytes:
                kept.append(schedule)
        return tuple(kept)

    def gone_through(self, program: Sequence[Instruction]) -> Schedule:
        """What a program takes."""
        held, peak, time, gradient = 0, 0, 0, self._out[-1]
        holds = set()
        for step in program:
            if isinstance(step, Run):
                peak = max(peak, gradient + held + int(self._passing[step.start, step.stop]))
                time += int(self._sum[step.stop] - self._sum[step.start])
            elif isinstance(step, Hold):
                holds.add(step.state)
                held += self._state[step.state]
            elif isinstance(step, Save):
                held += self._saved[step.stage]
                peak = max(peak, gradient + held + self._extra[step.stage])
                time += self._forward[step.stage]
            else:
                peak = max(peak, gradient + held + self._extra_back[step.stage])
                time += self._backward[step.stage]
                held -= self._saved[step.stage] + self._state[step.stage] * (step.stage in holds)
                gradient = self._state[step.stage]
        return Schedule(time, peak, tuple(program))

    def _sizes(self) -> Sizes:
        saved, out = np.array(self._saved)[:, None], np.array(self._out)
        back = np.add(self._out, self._extra_back)[:, None]
        saving = saved + np.maximum(out[None, :] + np.array(self._extra)[:, None], back)
        passing = self._passing[:, :-1] + out[None, :]
        return Sizes(self._forward, self._backward, self._state, self._saved, saving, passing)

    def _passed(self) -> np.ndarray:
        """[i, k]: what running stages [i, k) needs at most, state i not counted."""
        count = len(self._out)
        found = np.zeros((count, count + 1), dtype=np.int64)
        needs = np.add(self._out, self._extra)
        for i in range(count):
            inner = needs[i:] + self._state[i:]
            inner[0] = needs[i]
            found[i, i + 1 :] = np.maximum.accumulate(inner)
        return found

    def _least_peaks(self) -> np.ndarray:
        """[i, j]: the least peak of stages i..j."""
        count = len(self._out)
        found = np.zeros((count, count), dtype=np.int64)
        for j in range(count):
            for i in range(j, -1, -1):
                found[i, j] = self._saving_peak(found, i, j)
                if i < j:
                    found[i, j] = min(found[i, j], self._holding_peaks(found, i, j).min())
        return found

    def _saving_peak(self, least: np.ndarray, i: int, j: int) -> int:
        after = int(least[i + 1, j]) if i < j else 0
        return self._saved[i] + max(self._out[j] + self._extra[i], self._out[i] + self._extra_back[i], after)

    def _holding_peaks(self, least: np.ndarray, i: int, j: int) -> np.ndarray:
        """Where state i+1, .., j is the first that is held."""
        right = np.add(self._state[i + 1 : j + 1], least[i + 1 : j + 1, j])
        passing = self._out[j] + self._passing[i, i + 1 : j + 1]
        return np.maximum(np.maximum(right, passing), least[i, i:j])

    def _least_choice(self, part: Part) -> Choice:
        i, j, _ = part
        if i == j or self._saving_peak(self._least, i, j) == self._least[i, j]:
            return Choice(SAVED, (i + 1, j, 0), (i, i - 1, 0))
        held = i + 1 + int(self._holding_peaks(self._least, i, j).argmin())
        return Choice(held, (held, j, 0), (i, held - 1, 0))

    def _program(self, whole: Part, choice: Callable[[Part], Choice]) -> list[Instruction]:
        found: list[Instruction] = []
        todo: list[Part | Back] = [whole]
        while todo:
            item = todo.pop()
            if isinstance(item, Back):
                found.append(item)
                continue
            i, j, _ = item
            if i > j:
                continue
            held, right, left = choice(item)
            if held == SAVED:
                found.append(Save(i))
                todo += [Back(i), right]
            else:
                found += [Run(i, held), Hold(held)]
                todo += [left, right]
        return found
