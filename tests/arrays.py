"""Covering arrays: a few rows that hold every pair of values, in place of a product that holds every combination."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def covering_rows(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of one value from each axis, such that any two values of different axes stand together in one of them.

    Greedy, the same in every run: the row that holds most of the pairs still missing, the first of those in the order
    of the product. Values are told apart by their place in their axis.
    """
    every = list(product(*(range(len(axis)) for axis in axes)))
    missing = {pair for row in every for pair in _pairs(row)}
    chosen = []
    while missing:
        best = max(every, key=lambda row: len(missing & _pairs(row)))
        chosen.append(best)
        missing -= _pairs(best)
    return [tuple(axis[at] for axis, at in zip(axes, row, strict=True)) for row in sorted(chosen)]


def _pairs(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """Every two places of a row with what stands there."""
    return set(combinations(enumerate(row), 2))
