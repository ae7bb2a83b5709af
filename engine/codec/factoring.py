"""What codecs share that factor matrices: products and bases that are the same to the bit on every party, and the bases
that go on from one message to the next.

A library's product may depend on how many threads it has, and replicas must not. So what all parties make of the same
numbers is made element by element, or in sums of one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.axes.matrices import Run, cut_rows, runs_of
from engine.codec.base import Piece

_BASIS = "basis "
_AT_ONCE = 2**16
"""About so many elements of a product are worked on at a time, so that they stay in a core's own cache."""


class Bases:
    """Of a unit's matrices, by where each begins in the unit: what it is multiplied with next."""

    def __init__(self, piece: Piece, rank: int) -> None:
        self._piece = piece
        self._rank = rank
        self.dtype = torch.float64 if piece.dtype == torch.float64 else torch.float32
        """In which matrices are computed."""
        self._held: dict[int, Tensor] = {}

    def cut(self, part: Tensor, first: int) -> Iterator[tuple[Run, int, Tensor]]:
        """The runs of a part that begins at `first` of the unit, where in the unit each begins, and its elements."""
        place = first
        for run in runs_of([*cut_rows(self._piece.rows, first, first + part.numel())], self._rank):
            yield run, place, part[place - first :][: run.count]
            place += run.count

    def of(self, place: int, width: int) -> Tensor:
        """Of the matrix that begins at `place`; a column in which nothing was left begins anew, with normal numbers."""
        found = self._held.get(place)
        if found is None or found.shape[0] != width:
            found = torch.zeros(width, self._rank, dtype=self.dtype)
        empty = (found == 0).all(dim=0)
        if empty.any():
            drawn = np.random.Generator(np.random.SFC64(np.random.SeedSequence((self._piece.seed, place))))
            begun = torch.from_numpy(drawn.standard_normal((width, self._rank))).to(self.dtype)
            found[:, empty] = begun[:, empty]
        return found

    def keep(self, bases: Mapping[int, Tensor]) -> None:
        """By place, for the next message."""
        self._held |= bases

    @property
    def tensors(self) -> list[Tensor]:
        """All that there are, for who counts them."""
        return list(self._held.values())

    def state(self) -> dict[str, Tensor]:
        return {f"{_BASIS}{place}": basis.clone() for place, basis in self._held.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError, and goes on from what it has, where one is no basis of this unit's."""
        name = self._piece.name
        if others := sorted(each for each in state if not each.startswith(_BASIS)):
            raise ValueError(f"{name} remembers nothing but bases here, and was given {others}")
        found = {}
        for each, basis in state.items():
            place = each.removeprefix(_BASIS)
            width = self._width_at(int(place)) if place.isdecimal() else 0
            if not width or basis.shape != (width, self._rank) or basis.dtype != self.dtype:
                whose = f"{width} x {self._rank} {self.dtype} there" if width else "and no row begins there"
                raise ValueError(
                    f"a {each} of {tuple(basis.shape)} {basis.dtype} does not belong to {name}: {whose}"
                )
            found[int(place)] = basis.clone()
        self._held = found

    def _width_at(self, place: int) -> int:
        """Elements of the row that begins at `place` in the unit; 0 where none does."""
        for one in self._piece.rows:
            if place < one.count:
                return one.width if one.width and (one.begins + place) % one.width == 0 else 0
            place -= one.count
        return 0


def orthonormal(columns: Tensor) -> Tensor:
    """Of each column what the ones before it do not span, of length 1; 0 where that is rounding alone. Each party that
    has the same columns gets the same to the bit."""
    # A column lies in one piece, and is added up in one order.
    rows = columns.t().clone(memory_format=torch.contiguous_format).numpy()
    largest = np.abs(rows).max()
    if not largest:
        return torch.zeros_like(columns)
    rows /= largest  # so that no square is too large, or too small
    least = 64 * np.finfo(rows.dtype).eps
    for number in range(len(rows)):
        column, before = rows[number], rows[:number]
        length = _length(column)
        for _ in range(2 if number else 0):  # the second time takes away what rounding has left
            shares = (before * column).sum(axis=1, keepdims=True)
            np.subtract(column, (before * shares).sum(axis=0), out=column)
        left = _length(column)
        np.multiply(column, 1 / left if left > least * length else 0, out=column)
    return torch.from_numpy(rows).t().contiguous()


def _length(column: NDArray[Any]) -> Any:
    return np.sqrt((column * column).sum())


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left` times `right` transposed, of as many columns each: the same to the bit on every party."""
    found = torch.empty(len(left), len(right), dtype=left.dtype)
    multiply(left.numpy(), right.numpy(), found.numpy())
    return found


def multiply(left: NDArray[np.generic], right: NDArray[np.generic], found: NDArray[np.generic]) -> None:
    """Write the product of `left` and `right` transposed, column by column."""
    step = max(1, _AT_ONCE // found.shape[1])
    work = np.empty((step, found.shape[1]), found.dtype)
    for start in range(0, len(found), step):
        rows = found[start : start + step]
        np.multiply(left[start : start + step, :1], right[:, 0], out=rows)
        for column in range(1, left.shape[1]):
            more = work[: len(rows)]
            np.multiply(left[start : start + step, column : column + 1], right[:, column], out=more)
            np.add(rows, more, out=rows)
