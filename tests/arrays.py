"""Covering arrays: a few rows that hold every pair of values, in place of a product that holds every combination."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)


def covering_rows(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of one value from each axis, such that any two values of different axes stand together in one of them.

    Greedy, the same in every run: the row that holds most of the pairs still missing, the first of those in the order
    of the product. Values are told apart by their place in their axis.
    """
    every = list(product(*(range(len(axis)) for axis in axes)))
    held = [set(combinations(enumerate(row), 2)) for row in every]
    chosen = sorted(every[at] for at in cover(held, set().union(*held)))
    return [tuple(axis[at] for axis, at in zip(axes, row, strict=True)) for row in chosen]


def cover(held: Sequence[Collection[T]], wanted: Iterable[T]) -> list[int]:
    """Which of the collections to take so that together they hold all that is wanted: always the one that holds most
    of what is still missing, the first of those. Raises ValueError where they do not hold it.

    What one adds only gets less: who added less than the best did is not asked again before the best adds less, too.
    """
    missing, chosen = set(wanted), []
    if lacking := missing.difference(*held):
        raise ValueError(f"nothing holds {lacking}")
    most = [(-len(missing.intersection(one)), at) for at, one in enumerate(held)]
    heapq.heapify(most)
    while missing:
        before, at = most[0]
        if len(missing.intersection(held[at])) == -before:
            chosen.append(at)
            missing.difference_update(held[at])
        heapq.heapreplace(most, (-len(missing.intersection(held[at])), at))
    return chosen
