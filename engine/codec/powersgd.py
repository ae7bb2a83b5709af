"""powersgd: a layer's weight as two thin factors, by one step of subspace iteration from those of the last message.

Update rule, of a matrix M (a gradient with what was lost before, its first dimension by all others): P = M Q, made
orthonormal; Q <- M^T P; x' = P Q^T, M's part in the span of P's r columns. Q goes on to the next message, and begins
with normal numbers from the unit's seed; a column in which nothing was left begins anew. What that loses is kept
(`feedback.py`). What has no rows (biases, norms), and a matrix that would not become half as long, travels as it is.
A slice has the whole rows that it holds as a matrix of its own: the shorter, the less there is to save. Messages are
computed in float32, in float64 where the unit is.
**In two phases** (`summed_powersgd.py`: P is summed over workers, then Q with that common P, so that n workers' sum has
rank r) where every worker takes part in each sum and gets nothing else: in rings, trees and halving-doubling, also of
averages, and with servers whose workers wait for one another and update themselves. **In one**, as here, elsewhere,
where each message must stand by itself: where servers update (their answers are parameters, which the next Q is not
in), where workers drift (there is no sum of all), with peers, and as a server's answer.
Bytes: 4 (an element's) times r (n + m) for n x m elements, 20 more for a layer of a weight and a bias. Memory beside
the residual: r m numbers for each matrix, on each party that encodes it (of answers for each receiver, where workers
drift).
Loses where gradients have no few directions, as of embeddings and of noise, and where links are fast: two products of M
with r columns for each message, and one more where it arrives. In one phase the sum of n messages has rank n r.
Source: Vogels, Karimireddy and Jaggi 2019 (PowerSGD), algorithms 1 and 2; rank 2 is what they take for ResNet-18, and
where it pays PyTorch's hook. Deviation of messages in one phase: each worker factors its own M with a P of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.axes.codec_options import PowerSgdOptions
from engine.axes.matrices import HEAD, Run, runs_bytes
from engine.codec.base import Piece, add, end_to_end, inexpressible, magnitudes_of, write
from engine.codec.factoring import Bases, multiply, orthonormal
from engine.tensor_bytes import as_tensor

_WORD = np.dtype("<u4")


class PowerSgd:
    """Factors of one unit's matrices."""

    def __init__(self, piece: Piece, options: PowerSgdOptions) -> None:
        self._name = piece.name
        self._rank = options.rank
        self._wire = piece.dtype
        self._bases = Bases(piece, options.rank)
        """Q of each matrix's last message."""

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        magnitudes_of(end_to_end(parts), self._name)
        found = [(run, place, elements) for part, first in zip(parts, at, strict=True)
                 for run, place, elements in self._bases.cut(part, first)]  # fmt: skip
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
        self._bases.keep(bases)
        return payload

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write(self._values(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add(self._values(payload, parts), parts)

    @property
    def tensors(self) -> list[Tensor]:
        """What it keeps, for who counts it."""
        return self._bases.tensors

    def state(self) -> dict[str, Tensor]:
        return self._bases.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._bases.load(state)

    def _factors(self, elements: Tensor, run: Run, place: int) -> tuple[Tensor, Tensor, Tensor]:
        """P, row by row, Q, and what Q begins with in the next message."""
        matrix = elements.to(self._bases.dtype).view(run.height, run.width)
        largest = matrix.abs().max()
        basis = self._bases.of(place, run.width)
        if not largest:
            left, right = (
                torch.zeros(self._rank * side, dtype=matrix.dtype) for side in (run.height, run.width)
            )
            return left, right, basis
        matrix = matrix / largest  # so that no product is too large, or too small
        left = orthonormal(matrix @ basis)
        right = matrix.t() @ left
        return left.reshape(-1), (right * largest).reshape(-1), right

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
        numbers = received[HEAD * (1 + 2 * len(runs)) :].clone().view(self._wire).to(self._bases.dtype)
        found = torch.empty(count, dtype=self._bases.dtype)
        sizes = [run.numbers(self._rank) for run in runs]
        for run, (here, given) in zip(
            runs,
            zip(found.split([run.count for run in runs]), numbers.split(sizes), strict=True),
            strict=True,
        ):
            if run.height:
                left, right = given.split([self._rank * run.height, self._rank * run.width])
                multiply(left.view(-1, self._rank).numpy(), right.view(-1, self._rank).numpy(),
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
