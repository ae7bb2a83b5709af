"""The best choices for a model's blocks: for every budget the least time, by dynamic programming over peaks.

Blocks are taken from the last to the first. For those from i on, and what is done with block i-1, a set of labels
(V, T) says what is possible: V is the most bytes that they hold at any moment beside what the blocks before them have
left, T their time. What is done with block i makes of each label behind it

    V' = max(N, R + V)      N: what block i holds while it computes, R: what it leaves
    T' = T + t              t: its time, with what is computed again and what is waited for copies (`prediction.py`)

and labels that are beaten in both are dropped. What the two neighbours of a swap wait and hold follows from the choice
for block i-1, which the set is for. A run of blocks that is computed again together is one choice of its first. So the
set for the first block has the least time for every peak, whatever the budget: a smaller one never has a higher peak.

Sets that grow beyond `MOST` labels are thinned, and the ends are kept: the least possible peak is always exact, and
each label is a choice that can be had. How much is lost by that is bounded by a second run, in which those that go
leave the best of both behind: `bound`.

Costs L (3 MOST + runs) log for L blocks. Kept and swapped blocks alone are a knapsack problem; heuristics for those
(largest first) bound the sum of what is saved, where this bounds the peak over all moments, which is what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from engine.budget.blocks import Action, BlockCosts, Chosen
from engine.budget.prediction import SWAP_BEGINS_NS, Prediction, copy_ns, predict
from engine.errors import UserError

MOST: Final = 2000
"""Labels of a set."""
MOST_JOINED: Final = 32
"""Blocks that are computed again together."""
_AFTER = (Action.RECOMPUTE, Action.KEEP, Action.SWAP)
"""What may have been done with the block before: without one, as if it were computed again."""


class Assignment(NamedTuple):
    """A choice for each block, and what it takes."""

    chosen: tuple[Chosen, ...]
    prediction: Prediction


class _Way(NamedTuple):
    """One choice for a block, and the blocks that are computed again together with it."""

    action: Action
    blocks: int
    needs_bytes: int
    leaves_bytes: int
    time_ns: int


class _Labels(NamedTuple):
    """A set, by rising V."""

    peaks: np.ndarray
    times: np.ndarray
    way: np.ndarray
    """Of each: which of the ways that `_ways` yields."""
    behind: np.ndarray
    """Of each: the label that it was made of."""


class Frontier:
    """The choices that are worth knowing. Rates and other arguments: as `predict` has them."""

    def __init__(
        self,
        blocks: Sequence[BlockCosts],
        *,
        swap_bytes_per_second: int | None = None,
        swap_begins_ns: int = SWAP_BEGINS_NS,
        held_bytes: int = 0,
    ) -> None:
        self._blocks = tuple(blocks)
        self._rate = swap_bytes_per_second or None
        self._begins = swap_begins_ns
        self._held = held_bytes
        if not blocks:
            raise UserError("blocks", 0, "there is nothing to choose for", "Describe the model's blocks")
        self._sets = self._solved(optimistic=False)
        self._first = self._sets[0][Action.RECOMPUTE]

    @property
    def points(self) -> list[tuple[int, int]]:
        """(peak in bytes, time in nanoseconds) of every choice, by rising peak and falling time."""
        peaks = (self._first.peaks + self._held).tolist()
        return list(zip(peaks, self._first.times.tolist(), strict=True))

    @property
    def least_bytes(self) -> int:
        """The least peak that any choice has."""
        return self._held + int(self._first.peaks[0])

    def choose(self, budget_bytes: int) -> Assignment:
        """The fastest whose peak is within the budget. Raises UserError where there is none, with the least peak."""
        if budget_bytes < self.least_bytes:
            raise UserError(
                "memory.budget",
                budget_bytes,
                f"no choice for the model's blocks needs less than {self.least_bytes:,} bytes",
                "Give that or more, or smaller batches",
            )
        label = int(np.searchsorted(self._first.peaks, budget_bytes - self._held, side="right")) - 1
        chosen = tuple(self._walked(label))
        prediction = predict(
            self._blocks,
            chosen,
            swap_bytes_per_second=self._rate,
            swap_begins_ns=self._begins,
            held_bytes=self._held,
        )
        return Assignment(chosen, prediction)

    def bound(self, budget_bytes: int) -> int:
        """Nanoseconds that no choice within a budget that is possible can go below."""
        first = self._optimistic
        return int(first.times[np.searchsorted(first.peaks, budget_bytes - self._held, side="right") - 1])

    @cached_property
    def _optimistic(self) -> _Labels:
        thinned = any(len(labels.peaks) == MOST for each in self._sets for labels in each.values())
        return self._solved(optimistic=True)[0][Action.RECOMPUTE] if thinned else self._first

    def _walked(self, label: int) -> Iterator[Chosen]:
        at, before = 0, Action.RECOMPUTE
        while at < len(self._blocks):
            labels = self._sets[at][before]
            way = list(self._ways(at, before))[labels.way[label]]
            yield from (Chosen(way.action, joined) for joined in [False] + [True] * (way.blocks - 1))
            label, before = int(labels.behind[label]), way.action
            at += way.blocks

    def _solved(self, *, optimistic: bool) -> list[dict[Action, _Labels]]:
        """By block, and what is done with the one before it."""
        zero = np.zeros(1, dtype=np.int64)
        end = _Labels(zero, zero, zero, zero)
        sets: list[dict[Action, _Labels]] = [dict.fromkeys(_AFTER, end)]
        for at in reversed(range(len(self._blocks))):
            found = {}
            for before in _AFTER:
                parts = []
                for number, way in enumerate(self._ways(at, before)):
                    behind = sets[-way.blocks][way.action]
                    parts.append(
                        _Labels(
                            np.maximum(way.needs_bytes, behind.peaks + way.leaves_bytes),
                            behind.times + way.time_ns,
                            np.full(len(behind.peaks), number),
                            np.arange(len(behind.peaks)),
                        )
                    )
                found[before] = _best(parts, optimistic=optimistic)
            sets.append(found)
        return sets[::-1]

    def _ways(self, at: int, before: Action) -> Iterator[_Way]:
        """What can be done with block `at`, where `before` is done with the one before it."""
        block = self._blocks[at]
        kept = before is Action.KEEP
        comes = self._blocks[at - 1].leaving_bytes if before is Action.SWAP and at else 0
        own = block.forward_ns + block.backward_ns
        stays = block.saved_bytes - block.twice_bytes * kept
        yield _Way(Action.KEEP, 1, stays + comes + block.working_bytes, stays, own)
        if self._rate is not None:
            left = block.saved_bytes - block.leaving_bytes
            needs = block.saved_bytes + comes + block.working_bytes
            yield _Way(Action.SWAP, 1, needs, left, own + self._waited(at, self._rate))
        if not block.recomputable:
            return
        left = block.input_bytes - block.shared_bytes * kept
        saved = left + block.saved_bytes - block.saved_input_bytes
        needs = saved + comes + block.working_bytes
        time = own + block.forward_ns
        yield _Way(Action.RECOMPUTE, 1, needs, left, time)
        for blocks, other in enumerate(self._blocks[at + 1 : at + MOST_JOINED], start=2):
            if not (other.joins and other.recomputable):
                return
            saved += other.saved_bytes - other.twice_bytes
            needs = max(needs, saved + other.working_bytes)
            time += 2 * other.forward_ns + other.backward_ns
            yield _Way(Action.RECOMPUTE, blocks, needs, left, time)

    def _waited(self, at: int, rate: int) -> int:
        """What is waited for the copies of a block, for which the next one's time is there, and what they take."""
        copy = copy_ns(self._blocks[at].leaving_bytes, rate)
        if at + 1 == len(self._blocks):
            return 2 * copy + self._begins
        beside = self._blocks[at + 1]
        return self._begins + max(0, copy - beside.forward_ns) + max(0, copy - beside.backward_ns)


def _best(parts: list[_Labels], *, optimistic: bool) -> _Labels:
    """All of them that no other beats, thinned."""
    peaks = np.concatenate([part.peaks for part in parts])
    order = np.argsort(peaks, kind="stable")
    peaks = peaks[order]
    times = np.concatenate([part.times for part in parts])[order]
    least = np.minimum.accumulate(times)
    better = np.flatnonzero(np.concatenate([[True], times[1:] < least[:-1]]))
    better = better[np.concatenate([peaks[better][1:] > peaks[better][:-1], [True]])]
    peaks, times, order = peaks[better], times[better], order[better]
    if len(peaks) > MOST:
        kept = np.linspace(0, len(peaks) - 1, MOST).round().astype(np.int64)
        # Those between two that stay would have the peak of the first and the time of the second.
        times = times[np.append(kept[1:] - 1, kept[-1])] if optimistic else times[kept]
        peaks, order = peaks[kept], order[kept]
    way = np.concatenate([part.way for part in parts])[order]
    behind = np.concatenate([part.behind for part in parts])[order]
    return _Labels(peaks, times, way, behind)
