"""signsgd: of each element its sign, as a worker's vote; servers answer with what most workers voted for.

Update rule: v_i = sign(g_i) of worker i, m = sign(sum_i v_i) on the server, x <- x - lr m on every worker (with what
its optimizer adds: weights decay there). Each worker has one vote, however many samples it has, and an element without
a gradient on it has none from it. Magnitudes are lost for good: nothing is kept, so a step is as large for small
gradients as for large ones, and the learning rate is about the size of a step: 0.001, not 0.1, and falling. For the
same reason there is nothing to clip: a majority's norm is the square root of its elements (`engine/plan/rules.py`).
A zero, as a tie is on the server, has no sign, and a bit has no room for one: it is drawn at random, and is the
opposite in the next message. So an element with no gradient anywhere is back where it was after two steps: with plain
SGD at one learning rate, without weight decay, and where both messages are of the same parts of the unit. A momentum, a
rate that changes, or another mask in between leaves it near there.
Bytes: ceil(count / 8), 1/32 of float32's, in both directions.
Loses where gradients of workers are skewed, or of different data: a majority may point where the sum does not, and the
noise of one element's sign does not fall with the batch. `one-bit`, as short but for its means, loses nothing for good.
Source: Bernstein, Wang, Azizzadenesheli and Anandkumar 2018 (signSGD), algorithm 3 without momentum, and the program of
the same authors with Zhao (signSGD with majority vote, 2019). Deviations: in that program a zero, and a tie, is plus,
so that of two workers that disagree, or of a unit that is never active, a parameter falls in every step. A momentum of
each worker's own gradients ahead of its vote (Signum) is not here; that of the optimizer is one of majorities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.catalogue import NoOptions
from engine.codec.base import Piece, add, end_to_end, magnitudes_of, write
from engine.codec.draws import Draws
from engine.tensor_bytes import as_tensor


class SignSgd:
    """One bit an element: set where it is negative."""

    def __init__(self, piece: Piece, options: NoOptions) -> None:
        self._name = piece.name
        self._draws = Draws(piece)

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        flat = end_to_end(parts)
        magnitudes_of(flat, self._name, clipped=False)
        negative = np.packbits((flat < 0).numpy())
        zero = np.packbits((flat == 0).numpy())
        if zero.any():
            drawn = self._draws.generator(alike=2).random_raw(-(-len(zero) // 8)).view(np.uint8)[: len(zero)]
            negative |= zero & (~drawn if self._draws.messages % 2 else drawn)
        self._draws.sent()
        return [torch.from_numpy(negative)]

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write(self._votes(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add(self._votes(payload, parts), parts)

    def state(self) -> dict[str, Tensor]:
        return self._draws.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._draws.load(state)

    def _votes(self, payload: memoryview, parts: Sequence[Tensor]) -> Tensor:
        """1 or -1 of each element."""
        count = sum(part.numel() for part in parts)
        if len(payload) != -(-count // 8):
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {-(-count // 8)} bytes"
            )
        bits = np.unpackbits(as_tensor(payload, torch.uint8).numpy(), count=count)
        return torch.from_numpy(1 - 2 * bits.view(np.int8)).float()
