"""Of which matrices a message's elements are rows: codecs that factor them, and who sizes their messages, ask alike. No
torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

HEAD = 4
"""Bytes of how many runs a message has, and of each number that says what a run is."""
LEAST_GAIN = 2
"""A matrix is factored where that makes it so many times as short: PyTorch's `min_compression_rate`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Neighbouring elements of one parameter."""

    count: int
    width: int
    """Elements of a row, all dimensions but the first; 0: the parameter has no rows."""
    begins: int = 0
    """Where in its row the first of them is."""


def rows_of(shape: Sequence[int], start: int, stop: int) -> Rows:
    """Elements [start, stop) of a parameter of that shape."""
    width = math.prod(shape[1:]) if len(shape) > 1 else 0
    return Rows(stop - start, width, start % width if width else 0)


def cut_rows(rows: Sequence[Rows], start: int, stop: int) -> Iterator[Rows]:
    """Elements [start, stop) of them; what is beyond their end has no rows."""
    place = 0
    for one in rows:
        first, last = max(start - place, 0), min(stop - place, one.count)
        if first < last:
            begins = (one.begins + first) % one.width if one.width else 0
            yield replace(one, count=last - first, begins=begins)
        place += one.count
    if stop > max(place, start):
        yield Rows(stop - max(place, start), 0)


@dataclass(frozen=True, slots=True)
class Run:
    """What travels as one: a matrix as two factors, or elements as they are."""

    count: int
    height: int = 0
    width: int = 0
    """Of the matrix; 0: there is none."""

    def numbers(self, rank: int) -> int:
        """How many travel."""
        return rank * (self.height + self.width) if self.height else self.count


def runs_of(rows: Sequence[Rows], rank: int) -> list[Run]:
    """In order: the whole rows of each as a matrix where that pays, and what is left as it is."""
    found = []
    for one in rows:
        lead = min(-one.begins % one.width, one.count) if one.width else one.count
        height = (one.count - lead) // one.width if one.width else 0
        if LEAST_GAIN * rank * (height + one.width) < height * one.width:
            matrix = Run(height * one.width, height, one.width)
            rest = one.count - lead - matrix.count
            found += [run for run in (Run(lead), matrix, Run(rest)) if run.count]
        elif one.count:
            found.append(Run(one.count))
    return found


def runs_bytes(runs: Sequence[Run], rank: int, item: int) -> int:
    """Of a message of them, where a number has `item` bytes. Where no run is a matrix it is the elements as they
    are."""
    numbers = item * sum(run.numbers(rank) for run in runs)
    factored = any(run.height for run in runs)
    return (
        min(numbers + HEAD * (1 + 2 * len(runs)), item * sum(run.count for run in runs))
        if factored
        else numbers
    )
