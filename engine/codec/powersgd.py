"""powersgd: a layer's weight as two thin factors, by one step of subspace iteration from those of the last message.

Update rule, of a matrix M (a gradient with what was lost before, its first dimension by all others): P = M Q, made
orthonormal; Q <- M^T P; x' = P Q^T, M's part in the span of P's r columns. Q goes on to the next message, and begins
with normal numbers from the unit's seed; a column in which nothing was left begins anew. What that loses is kept
(`feedback.py`). What has no rows (biases, norms), and a matrix that would not become half as long, travels as it is.
A slice has the whole rows that it holds as a matrix of its own, and so has each rank's part in a ring: the shorter, the
less there is to save. Messages are computed in float32, in float64 where the unit is.
Bytes: 4 (an element's) times r (n + m) for n x m elements, 20 more for a layer of a weight and a bias. Memory beside
the residual: r m numbers for each matrix, on each party that encodes it (in a ring of each part; of answers for each
receiver, where workers drift).
Loses where gradients have no few directions, as of embeddings and of noise, and where links are fast: two products of M
with r columns for each message, and one more where it arrives.
Source: Vogels, Karimireddy and Jaggi 2019 (PowerSGD), algorithms 1 and 2; rank 2 is what they take for ResNet-18, and
where it pays PyTorch's hook. Deviation: theirs is linear, and needs two rounds: P is summed over workers and made
orthonormal, Q is summed with that common P, so n workers' sum has rank r. Messages here go one way once, so each worker
factors its own M, the sum of n messages has rank n r, and who sends a sum on (a server whose workers update, a hop)
factors that, and keeps what it lost. `ddp` with `hook: powersgd` has theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.axes.codec_options import PowerSgdOptions
from engine.axes.matrices import HEAD, Run, cut_rows, runs_bytes, runs_of
from engine.codec.base import Piece, add, end_to_end, inexpressible, magnitudes_of, write
from engine.tensor_bytes import as_tensor

_WORD = np.dtype("<u4")
_BASIS = "basis "
_AT_ONCE = 2**16
"""About so many elements of a product are worked on at a time, so that they stay in a core's own cache."""


class PowerSgd:
    """Factors of one unit's matrices."""

    def __init__(self, piece: Piece, options: PowerSgdOptions) -> None:
        self._name = piece.name
        self._rank = options.rank
        self._rows = piece.rows
        self._seed = piece.seed
        self._wire = piece.dtype
        self._dtype = torch.float64 if piece.dtype == torch.float64 else torch.float32
        self._bases: dict[int, Tensor] = {}
        """By where a matrix begins in the unit: Q of its last message."""

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        magnitudes_of(end_to_end(parts), self._name)
        found = [(run, place, elements) for part, first in zip(parts, at, strict=True)
                 for run, place, elements in self._cut(part, first)]  # fmt: skip
        runs = [run for run, _, _ in found]
        if runs_bytes(runs, self._rank, self._wire.itemsize) == self._wire.itemsize * sum(
            run.count for run in runs
        ):
            return [part.to(self._wire) for part in parts]
        words = [len(runs), *(word for run in runs for word in (run.count, run.width))]
        payload = [torch.from_numpy(np.array(words, _WORD).view(np.uint8))]
        bases: dict[int, Tensor] = {}
        for run, place, elements in found:
            if run.height:
                left, right, bases[place] = self._factors(elements, run, place)
                payload += [left.to(self._wire), right.to(self._wire)]
                if not payload[-1].isfinite().all():  # it may be larger than any element
                    raise inexpressible(self._name)
            else:
                payload.append(elements.to(self._wire))
        self._bases |= bases
        return payload

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write(self._values(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add(self._values(payload, parts), parts)

    @property
    def tensors(self) -> list[Tensor]:
        """What it keeps, for who counts it."""
        return list(self._bases.values())

    def state(self) -> dict[str, Tensor]:
        return {f"{_BASIS}{place}": basis.clone() for place, basis in self._bases.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        if others := sorted(name for name in state if not name.startswith(_BASIS)):
            raise ValueError(f"{self._name} remembers nothing but bases here, and was given {others}")
        found = {}
        for name, basis in state.items():
            place = name.removeprefix(_BASIS)
            width = self._width_at(int(place)) if place.isdecimal() else 0
            if not width or basis.shape != (width, self._rank) or basis.dtype != self._dtype:
                whose = f"{width} x {self._rank} {self._dtype} there" if width else "and no row begins there"
                raise ValueError(
                    f"a {name} of {tuple(basis.shape)} {basis.dtype} does not belong to {self._name}: {whose}"
                )
            found[int(place)] = basis.clone()
        self._bases = found

    def _width_at(self, place: int) -> int:
        """Elements of the row that begins at `place` in the unit; 0 where none does."""
        for one in self._rows:
            if place < one.count:
                return one.width if one.width and (one.begins + place) % one.width == 0 else 0
            place -= one.count
        return 0

    def _cut(self, part: Tensor, first: int) -> Iterator[tuple[Run, int, Tensor]]:
        """A part's runs, where in the unit each begins, and its elements."""
        place = first
        for run in runs_of([*cut_rows(self._rows, first, first + part.numel())], self._rank):
            yield run, place, part[place - first :][: run.count]
            place += run.count

    def _factors(self, elements: Tensor, run: Run, place: int) -> tuple[Tensor, Tensor, Tensor]:
        """P, row by row, Q, and what Q begins with in the next message."""
        matrix = elements.to(self._dtype).view(run.height, run.width)
        largest = matrix.abs().max()
        basis = self._basis(place, run.width)
        if not largest:
            left, right = (
                torch.zeros(self._rank * side, dtype=self._dtype) for side in (run.height, run.width)
            )
            return left, right, basis
        matrix = matrix / largest  # so that no square is too large, or too small
        left = matrix @ basis
        _orthonormal(left)
        right = matrix.t() @ left
        return left.reshape(-1), (right * largest).reshape(-1), right

    def _basis(self, place: int, width: int) -> Tensor:
        """What the unit's matrix that begins at `place` was multiplied with last; normal numbers where nothing was."""
        found = self._bases.get(place)
        if found is None or found.shape[0] != width:
            found = torch.zeros(width, self._rank, dtype=self._dtype)
        empty = (found == 0).all(dim=0)
        if empty.any():
            drawn = np.random.Generator(np.random.SFC64(np.random.SeedSequence((self._seed, place))))
            found[:, empty] = torch.from_numpy(drawn.standard_normal((width, self._rank))).to(self._dtype)[
                :, empty
            ]
        return found

    def _values(self, payload: memoryview, parts: Sequence[Tensor]) -> Tensor:
        """What a message says of each element."""
        count, item = sum(part.numel() for part in parts), self._wire.itemsize
        received = as_tensor(payload, torch.uint8)
        if len(payload) == count * item:
            return received.clone().view(self._wire)
        runs = _runs(received.numpy())
        if sum(run.count for run in runs) != count or len(payload) != runs_bytes(runs, self._rank, item):
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {count * item} bytes, or"
                " fewer in factors that begin with what they are of"
            )
        numbers = received[HEAD * (1 + 2 * len(runs)) :].clone().view(self._wire).to(self._dtype)
        found = torch.empty(count, dtype=self._dtype)
        sizes = [run.numbers(self._rank) for run in runs]
        for run, (here, given) in zip(
            runs,
            zip(found.split([run.count for run in runs]), numbers.split(sizes), strict=True),
            strict=True,
        ):
            if run.height:
                left, right = given.split([self._rank * run.height, self._rank * run.width])
                _multiply(left.view(-1, self._rank).numpy(), right.view(-1, self._rank).numpy(),
                          here.view(run.height, run.width).numpy())  # fmt: skip
            else:
                here.copy_(given)
        return found


def _runs(received: NDArray[np.uint8]) -> list[Run]:
    """What a message says that it is of; nothing where it is too short to say so."""
    if len(received) < HEAD:
        return []
    number = int(received[:HEAD].copy().view(_WORD)[0])
    end = HEAD * (1 + 2 * number)
    if len(received) < end:
        return []
    words = received[HEAD:end].copy().view(_WORD).reshape(-1, 2).tolist()
    return [Run(count, count // width if width else 0, width) for count, width in words]


def _orthonormal(columns: Tensor) -> None:
    """Of each column what the ones before it do not span, of length 1; 0 where that is rounding alone."""
    least = 64 * torch.finfo(columns.dtype).eps
    for number in range(columns.shape[1]):
        column, before = columns[:, number], columns[:, :number]
        length = column.norm()
        for _ in range(2):  # the second time takes away what rounding has left
            column -= before @ (before.t() @ column)
        left = column.norm()
        column *= 1 / left if left > least * length else 0


def _multiply(left: NDArray[np.generic], right: NDArray[np.generic], found: NDArray[np.generic]) -> None:
    """Write the product of `left` and `right` transposed, column by column, so that it is the same to the bit on every
    party: a library's product may depend on how many threads it has, and replicas must not."""
    step = max(1, _AT_ONCE // found.shape[1])
    work = np.empty((step, found.shape[1]), found.dtype)
    for start in range(0, len(found), step):
        rows = found[start : start + step]
        np.multiply(left[start : start + step, :1], right[:, 0], out=rows)
        for column in range(1, left.shape[1]):
            more = work[: len(rows)]
            np.multiply(left[start : start + step, column : column + 1], right[:, column], out=more)
            np.add(rows, more, out=rows)
