"""The table behind `chain.py`: the least time of each part of a chain for each number of slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

SLOTS: Final = 500
"""Of memory, unless the chain is so long that the table would be too large."""
CELLS: Final = 10_000_000
"""Of a table whose sizes are rounded: 40 MB."""
SAVED: Final = 0
"""In place of a stage whose state is held, which is never the first of a part."""
Part: TypeAlias = tuple[int, int, int]
"""First stage, last stage, free slots."""


class Choice(NamedTuple):
    """What is done with a part of a chain."""

    held: int
    """The first state that is held, or SAVED: all that the first stage's backward needs is saved."""
    right: Part
    """What is gone through with that in memory."""
    left: Part
    """What is gone through then; empty where the first stage is saved."""


class Sizes(NamedTuple):
    """A chain's, in bytes and nanoseconds, with the gradient of a part's output in `saving` and `passing`."""

    forward: Sequence[int]
    backward: Sequence[int]
    state: Sequence[int]
    """Of each stage's input, where it is held; 0 of the first."""
    saved: Sequence[int]
    saving: np.ndarray
    """[i, j]: what stage i takes in forward and backward where it is saved as the first of i..j."""
    passing: np.ndarray
    """[i, j]: what it takes to run stages i..j-1, state i not counted."""


class Table:
    """See `chain.py` for the recurrence."""

    def __init__(self, sizes: Sizes, most: int) -> None:
        """`most`: the bytes up to which it goes."""
        self._count = count = len(sizes.forward)
        every = (*sizes.state, *sizes.saved, *sizes.saving.flat, *sizes.passing.flat)
        exact = math.gcd(*map(int, every)) or 1
        slots = max(1, min(SLOTS, CELLS // (count * count)))
        self.exact = most <= exact * slots
        """Nothing is rounded."""
        self.unit = exact if self.exact else -(-most // slots)
        """Bytes of a slot."""
        self._slots = -(-most // self.unit)
        self._sizes = sizes
        self._sum = np.concatenate([[0.0], np.cumsum(sizes.forward, dtype=np.float64)])
        """Of the stages' forward times before each. Whole numbers below 2**53 are exact."""
        self._state, self._saved = self._in_slots(sizes.state), self._in_slots(sizes.saved)
        self._saving, self._passing = (
            np.rint(bytes_ / self.unit).astype(np.int64) for bytes_ in (sizes.saving, sizes.passing)
        )
        self._type = np.float64 if self.exact else np.float32
        self._left = np.full((count, count + 1, self._slots + 1), np.inf, dtype=self._type)
        """[i, k]: of i..k-1, with a first run over them in front."""
        self._fill()

    @property
    def costs(self) -> np.ndarray:
        """The least time of the chain, by slots; infinite where there are too few."""
        return self._of(0, self._count - 1)

    def choice(self, part: Part) -> Choice:
        """What the least time of a part comes from."""
        i, j, free = part
        least = float(self._left[i, j + 1, free]) - (self._sum[j + 1] - self._sum[i])
        by_saving = self._time_of_saving(i, j, free)
        if by_saving > least * (1 if self.exact else 1.00001):
            left_over = free - self._state[i + 1 : j + 1]
            k = np.arange(i + 1, j + 1)
            times = (
                self._left[k, j + 1, left_over]
                + self._left[i, i + 1 : j + 1, free]
                + self._sum[i + 1 : j + 1]
            )
            times[left_over < 0] = np.inf
            best = int(times.argmin())
            held = i + 1 + best
            return Choice(held, (held, j, int(left_over[best])), (i, held - 1, free))
        return Choice(SAVED, (i + 1, j, free - int(self._saved[i])), (i, i - 1, free))

    def _fill(self) -> None:
        for j in range(self._count):
            # Of k..j, with state k held.
            right = np.full((self._count, self._slots + 1), np.inf, dtype=self._type)
            for i in range(j, -1, -1):
                best = self._by_saving(i, j)
                if i < j:
                    by_holding = (self._left[i, i + 1 : j + 1] + right[i + 1 : j + 1]).min(axis=0)
                    by_holding[: self._passing[i, j]] = np.inf
                    np.minimum(best, by_holding, out=best)
                np.add(best, self._type(self._sum[j + 1] - self._sum[i]), out=self._left[i, j + 1])
                held = self._state[i]
                right[i, held:] = best[: self._slots + 1 - held]

    def _by_saving(self, i: int, j: int) -> np.ndarray:
        """By slots."""
        found = np.full(self._slots + 1, np.inf, dtype=self._type)
        saved, least, own = self._to_save(i, j)
        if least <= self._slots:
            behind = self._of(i + 1, j)[least - saved : self._slots + 1 - saved] if i < j else 0
            found[least:] = np.add(behind, own)
        return found

    def _time_of_saving(self, i: int, j: int, free: int) -> float:
        saved, least, own = self._to_save(i, j)
        if free < least:
            return math.inf
        return own + (
            self._left[i + 1, j + 1, free - saved] - self._sum[j + 1] + self._sum[i + 1] if i < j else 0
        )

    def _to_save(self, i: int, j: int) -> tuple[int, int, int]:
        """What stays of stage i, the slots that it takes, and its own time."""
        saved = int(self._saved[i])
        own = self._sizes.forward[i] + self._sizes.backward[i]
        return saved, max(saved, int(self._saving[i, j])), own

    def _of(self, i: int, j: int) -> np.ndarray:
        """C(i, j) by slots."""
        found: np.ndarray = self._left[i, j + 1] - self._type(self._sum[j + 1] - self._sum[i])
        return found

    def _in_slots(self, sizes: Sequence[int]) -> np.ndarray:
        """Rounded so that the sum of the first k is right, for every k."""
        sums = np.concatenate([[0.0], np.cumsum(sizes, dtype=np.float64)])
        return np.diff(np.rint(sums / self.unit)).astype(np.int64)
