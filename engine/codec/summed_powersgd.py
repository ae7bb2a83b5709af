"""PowerSGD in two phases, where all workers take part in each sum (`powersgd.py` says where, and the rest).

Update rule, of worker i's matrix M_i (its gradient with what it lost before): P = sum_i M_i Q, made orthonormal;
Q_i = M_i^T P; e_i <- M_i - P Q_i^T; Q <- sum_i Q_i; the sum is P Q^T, of rank r, and every worker computes it. Q goes
on to the next step, divided by its largest element, which changes no direction. Each worker sums what has no rows with
P. Whatever is summed adds up on its way, in the unit's own type, so rings and trees round nothing away that they do not
round away of gradients as they are.
Bytes: r n numbers and what has no rows, then r m, as of an allreduce of so many elements: no heads, and no finer or
coarser where a ring has more ranks. Memory beside the residual: r m numbers for each matrix; from its first phase to
its last of a unit what it wanted to send and both factors.
Loses what `powersgd.py` says, and where latency counts: a unit's second sum begins when its first one is there.
Source: Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2. They sum means; sums have the same P, and gradients are
divided by the global batch before. Deviations: a common first Q comes from the job's seed. What a worker lost is of its
own factors, as in algorithm 2 (PyTorch's hook takes the mean's, which adds up to the same over all workers): so what
each worker has sent and what it keeps add up to what it was given. A part of a unit of which no worker has a gradient
keeps what it lost, as nothing of it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.axes.codec_options import PowerSgdOptions
from engine.axes.matrices import Run
from engine.codec.base import Piece, beginnings, end_to_end, inexpressible, magnitudes_of
from engine.codec.factoring import Bases, orthonormal, product
from engine.codec.memory import Memory

_REST = "rest"


@dataclass(kw_only=True)
class _Open:
    """A unit between its first phase and its last."""

    wanted: list[Tensor]
    """Its parts with what was lost before."""
    own: list[Tensor] = field(default_factory=list)
    """What this worker gave to each phase."""
    left: dict[int, Tensor] = field(default_factory=dict)
    """By where a matrix begins: the common P."""


class SummedPowerSgd:
    """One worker's side of a unit's sums."""

    def __init__(self, piece: Piece, options: PowerSgdOptions) -> None:
        """`piece.seed` is the same on all workers."""
        self._name = piece.name
        self._rank = options.rank
        self._wire = piece.dtype
        self._bases = Bases(piece, options.rank)
        self._memory = Memory(piece, _REST)
        self._open: _Open | None = None

    def begin(self, parts: Sequence[Tensor]) -> Tensor:
        """What is summed first, of all of the unit's parts: 1-D, of its own type. Raises TrainingError, and remembers
        nothing, where it cannot be expressed."""
        magnitudes_of(end_to_end(parts), self._name)
        rests = self._memory.of(_REST, parts, beginnings(parts))
        opened = _Open(wanted=[part + rest for part, rest in zip(parts, rests, strict=True)])
        left = [
            (self._matrix(run, elements) @ self._bases.of(place, run.width)).reshape(-1)
            if run.height
            else elements
            for run, place, elements in self._runs(opened.wanted)
        ]
        self._open = opened
        return self._given(left)

    def go_on(self, sums: Tensor) -> Tensor:
        """What is summed next, where `sums` are what all workers gave to the first phase."""
        opened = self._opened()
        self._expressible(sums)
        right = []
        for run, place, elements, summed in self._summed(opened, sums, heights=True):
            if run.height:
                columns = summed.to(self._bases.dtype).view(run.height, self._rank)
                opened.left[place] = orthonormal(columns)
                right.append((self._matrix(run, elements).t() @ opened.left[place]).reshape(-1))
        return self._given(right)

    def end(self, sums: Sequence[Tensor], parts: Sequence[Tensor], there: Sequence[bool]) -> None:
        """Write the sum of all workers over `parts`, where `sums` are those of each phase. `there`: of which parts any
        worker has a gradient; of the others nothing is applied."""
        opened = self._opened()
        for each in sums:
            self._expressible(each)
        total, bases = self._values(opened, sums), self._next_bases(opened, sums)
        sent = self._values(opened, opened.own)
        rests = self._memory.of(_REST, parts, beginnings(parts))
        for part, found, rest, wanted, own, applied in zip(
            parts, total, rests, opened.wanted, sent, there, strict=True
        ):
            part.copy_(found)
            if applied:
                torch.sub(wanted, own, out=rest)
        self._bases.keep(bases)
        self._open = None

    @property
    def tensors(self) -> list[Tensor]:
        """What it keeps from one step to the next, for who counts it."""
        return [*self._bases.tensors, *self._memory.tensors]

    def state(self) -> dict[str, Tensor]:
        """What a later step needs of the earlier ones, between two of them."""
        return self._bases.state() | self._memory.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same unit's codec. Raises ValueError where it is another one's."""
        self._memory.load({name: held for name, held in state.items() if name == _REST})
        self._bases.load({name: held for name, held in state.items() if name != _REST})

    def _opened(self) -> _Open:
        assert self._open is not None, f"{self._name} has no phase under way"
        return self._open

    def _runs(self, parts: Sequence[Tensor]) -> list[tuple[Run, int, Tensor]]:
        return [
            found
            for part, first in zip(parts, beginnings(parts), strict=True)
            for found in self._bases.cut(part, first)
        ]

    def _matrix(self, run: Run, elements: Tensor) -> Tensor:
        return elements.to(self._bases.dtype).view(run.height, run.width)

    def _given(self, numbers: Sequence[Tensor]) -> Tensor:
        """What this worker gives to a phase. Raises what `inexpressible` says: it may be larger than any element."""
        found = torch.cat([each.to(self._wire) for each in numbers])
        self._expressible(found)
        self._opened().own.append(found)
        return found

    def _expressible(self, numbers: Tensor) -> None:
        if not numbers.isfinite().all():
            raise inexpressible(self._name)

    def _summed(self, opened: _Open, sums: Tensor, *, heights: bool) -> list[tuple[Run, int, Tensor, Tensor]]:
        """Of each run its numbers in the first phase (`heights`), or in the second one."""
        runs = self._runs(opened.wanted)
        sizes = [
            (self._rank * (run.height if heights else run.width)) if run.height else run.count * heights
            for run, _, _ in runs
        ]
        pieces = sums.split(sizes)
        return [(*run, piece) for run, piece in zip(runs, pieces, strict=True)]

    def _values(self, opened: _Open, numbers: Sequence[Tensor]) -> list[Tensor]:
        """By part: what was summed, or given, as elements."""
        found = [torch.empty(len(part), dtype=self._bases.dtype) for part in opened.wanted]
        runs = self._runs(found)
        first = self._summed(opened, numbers[0], heights=True)
        second = self._summed(opened, numbers[1], heights=False) if len(numbers) > 1 else first
        for (run, place, here), (*_, given), (*_, right) in zip(runs, first, second, strict=True):
            if run.height:
                columns = right.to(self._bases.dtype).view(run.width, self._rank)
                here.view(run.height, run.width).copy_(product(opened.left[place], columns))
            else:
                here.copy_(given)
        return found

    def _next_bases(self, opened: _Open, sums: Sequence[Tensor]) -> dict[int, Tensor]:
        if len(sums) == 1:
            return {}
        found = {}
        for run, place, _, right in self._summed(opened, sums[1], heights=False):
            if run.height:
                columns = right.to(self._bases.dtype).view(run.width, self._rank)
                largest = columns.abs().max()
                found[place] = columns / largest if largest else torch.zeros_like(columns)
        return found
