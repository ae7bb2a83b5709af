"""signsgd: of each element its sign, as a worker's vote; servers answer with what most workers voted for.

Update rule: v_i = sign(g_i) of worker i, m = sign(sum_i v_i) on the server, x <- x - lr m on every worker (with what
its optimizer adds: weights decay there). With `momentum` b (Signum) v_i = sign(u_i) of u_i <- b u_i + (1 - b) g_i, of
the worker's own gradients, from 0 on; the server's majority has none. Each worker has one vote, however many samples it
has, and an element without a gradient on it has none from it, and leaves its u as it was. Magnitudes of u, or g, are
lost for good, so a step is as large for small gradients as for large ones, and the learning rate is about the size of a
step: 0.001, not 0.1, and falling. For the same reason there is nothing to clip: a majority's norm is the square root of
its elements (`engine/plan/rules.py`).
A zero, as a tie is on the server, has no sign, and a bit has no room for one: it is drawn at random, and is the
opposite in the next message. So an element with no gradient anywhere is back where it was after two steps: with plain
SGD at one learning rate, without weight decay, and where both messages are of the same parts of the unit. A momentum, a
rate that changes, or another mask in between leaves it near there.
Bytes: ceil(count / 8), 1/32 of float32's, in both directions. Memory: none; with `momentum` one element for each of the
unit's, in its own type or float32, on every worker.
Loses where gradients of workers are skewed, or of different data: a majority may point where the sum does not, and the
noise of one element's sign does not fall with the batch. `one-bit`, as short but for its means, loses nothing for good.
Source: Bernstein, Wang, Azizzadenesheli and Anandkumar 2018 (signSGD), algorithms 2 (Signum) and 3, and the program of
the same authors with Zhao (signSGD with majority vote, 2019), where each worker has Signum's momentum. Deviations: in
that program a zero, and a tie, is plus, so that of two workers that disagree, or of a unit that is never active, a
parameter falls in every step. A momentum of the optimizer is one of majorities, and another thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.axes.codec_options import SignOptions
from engine.codec.base import Piece, add, end_to_end, magnitudes_of, write
from engine.codec.draws import Draws
from engine.codec.memory import Memory
from engine.tensor_bytes import as_tensor

_MOMENTUM = "momentum"


class SignSgd:
    """One bit an element: set where it is negative."""

    def __init__(self, piece: Piece, options: SignOptions) -> None:
        self._name = piece.name
        self._draws = Draws(piece)
        self._share = 0.0 if piece.sums else options.momentum
        self._memory = Memory(piece, _MOMENTUM) if self._share else None

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        flat = end_to_end(parts)
        magnitudes_of(flat, self._name, clipped=False)
        if self._memory is not None:
            momenta = self._memory.of(_MOMENTUM, parts, at)
            for momentum, part in zip(momenta, parts, strict=True):
                momentum.mul_(self._share).add_(part, alpha=1 - self._share)
            flat = end_to_end(momenta)
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

    @property
    def tensors(self) -> list[Tensor]:
        """What it keeps, for who counts it."""
        return [] if self._memory is None else self._memory.tensors

    def state(self) -> dict[str, Tensor]:
        return self._draws.state() | ({} if self._memory is None else self._memory.state())

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError, and changes nothing, where it is another codec's state."""
        momenta = {name: held for name, held in state.items() if name == _MOMENTUM}
        if momenta and self._memory is None:
            raise ValueError(f"{self._name} has no momentum here, and was given one")
        before = self._draws.state()
        self._draws.load({name: held for name, held in state.items() if name != _MOMENTUM})
        if self._memory is not None:
            try:
                self._memory.load(momenta)
            except ValueError:
                self._draws.load(before)
                raise

    def _votes(self, payload: memoryview, parts: Sequence[Tensor]) -> Tensor:
        """1 or -1 of each element."""
        count = sum(part.numel() for part in parts)
        if len(payload) != -(-count // 8):
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements of {self._name}, which are {-(-count // 8)} bytes"
            )
        bits = np.unpackbits(as_tensor(payload, torch.uint8).numpy(), count=count)
        return torch.from_numpy(1 - 2 * bits.view(np.int8)).float()
