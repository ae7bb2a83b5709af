"""dgc: Deep Gradient Compression. The largest elements of what has come together of a worker's momentum.

Update rule, of a worker's own gradient g: u <- m u + g, v <- v + u (with `nesterov` u <- m (u + g), v <- v + u + g);
the k largest |v| of the message are sent, and there v <- v - what is sent, u <- 0 (`masking`). So what has been sent
and v add up to the sum of all u, to rounding; the server adds up what comes, and takes a step of plain SGD. With ratio
1 and without masking that is SGD with momentum m, with masking plain SGD. `clip_norm` scales a message's g down to that
norm beforehand; the paper's limit G for the sum of N workers is G / sqrt(N) here. `warmup` messages long the ratio
falls from ratio^(1/6) to ratio^(5/6) in five stages (for 0.001: 0.32, 0.1, 0.032, 0.01, 0.0032), then it is `ratio`.
Bytes: 4, for k elements 4 k, and for saying which they are the lesser of 2 k + 4 ceil(count / 65536) (without the
second term up to 65,536 elements) and ceil(count / 8): 0.0015 of float32's at 0.1 %. Plans declare what the first stage
of the warm-up takes. With entropy coding (`places.py`) places take as many bytes as they happen to need, at most 1
more than without. Answers have a codec of their own (`difference.py`). Memory: two elements for each of the unit's, in
its own type or float32, on every worker.
Loses where top-k does; papers 004 (section 5.5) did not meet the authors' accuracy. It encodes a worker's own gradients
alone, so a server must update: a momentum of what hops pass on, or of a server's sum, would be applied twice. For the
same reason the optimizer is SGD without momentum for these layers. `weight_decay` is the server's and has no momentum,
so it does 1 - m (a tenth) of what it does in SGD with momentum. A worker that has no gradient of a layer in a step
neither sends nor decays its u; one that joins again begins with u = v = 0 and the first stage of the warm-up.
Source: Lin et al. 2018 (DGC), section 3, with the formulas for Nesterov and the warm-up of the first author's code.
Deviation: a stage is a fifth of `warmup` messages, not an epoch; a message's own norm is clipped, which may be a
slice's; selection is exact, as in top-k; every layer takes part, where that code leaves out those with one dimension:
give such layers another codec, and a momentum, by overrides and `optimizer.groups`; v keeps what rounding to half
precision loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.axes.codec_options import DgcOptions
from engine.axes.codec_sizes import NUMBER, number_at
from engine.codec.base import Piece, arriving
from engine.codec.memory import Memory
from engine.codec.places import Places, add_at, by_part, write_at
from engine.codec.top_k import TopK

_MOMENTUM, _WAITING, _MESSAGES = "momentum", "waiting", "messages"


class Dgc:
    """Of a worker's own gradients."""

    def __init__(self, piece: Piece, options: DgcOptions, *, entropy_coding: bool = False) -> None:
        self._item = piece.dtype.itemsize
        self._options = options
        self._largest = TopK(piece, options, entropy_coding=entropy_coding)
        self._memory = Memory(piece, _MOMENTUM, _WAITING)
        self._messages = 0
        """Encoded so far."""

    def encode(self, parts: Sequence[Tensor], at: Sequence[int]) -> list[Tensor]:
        options, count = self._options, sum(part.numel() for part in parts)
        if not count:
            return [torch.empty(0, dtype=torch.uint8)]
        momenta, waiting = (self._memory.of(name, parts, at) for name in (_MOMENTUM, _WAITING))
        moved, wanted = [], []
        for part, momentum, waits in zip(self._limited(parts), momenta, waiting, strict=True):
            if options.nesterov:
                moved.append(options.momentum * (momentum + part))
                wanted.append(waits + moved[-1] + part)
            else:
                moved.append(options.momentum * momentum + part)
                wanted.append(waits + moved[-1])
        chosen = options.chosen_in(self._messages, count, self._item)
        packed, places = self._largest.pack(wanted, chosen)
        payload = [torch.from_numpy(np.array([chosen], "<u4").view(np.uint8)), *packed]
        sent = arriving(payload, self.decode, parts)
        for waits, momentum, all_of_it, part, moves in zip(
            waiting, momenta, wanted, sent, moved, strict=True
        ):
            torch.sub(all_of_it, part, out=waits)
            momentum.copy_(moves)
        if options.masking:
            for part, where, _ in by_part(np.arange(count) if places is None else places, momenta):
                part[where] = 0
        self._messages += 1
        return payload

    def decode(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        write_at(*self._read(payload, parts), parts)

    def decode_add(self, payload: memoryview, parts: Sequence[Tensor]) -> None:
        add_at(*self._read(payload, parts), parts)

    def state(self) -> dict[str, Tensor]:
        held = self._memory.state()
        return held | {_MESSAGES: torch.tensor([self._messages])} if held else held

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._memory.load({name: held for name, held in state.items() if name != _MESSAGES})
        self._messages = int(state[_MESSAGES]) if state else 0

    def _limited(self, parts: Sequence[Tensor]) -> Sequence[Tensor]:
        """A message's gradient, no longer than `clip_norm`."""
        limit = self._options.clip_norm
        if limit is None:
            return parts
        norm = torch.stack([part.double().norm() for part in parts]).norm()
        factor = (limit / norm).clamp(max=1) if norm else torch.ones(())
        return [part * factor.to(part.dtype) for part in parts]

    def _read(self, payload: memoryview, parts: Sequence[Tensor]) -> tuple[Places | None, Tensor]:
        chosen, count = number_at(payload), sum(part.numel() for part in parts)
        if not min(1, count) <= chosen <= count:
            raise RuntimeError(
                f"{len(payload)} bytes came for {count} elements, which say that {chosen} are sent"
            )
        return self._largest.unpack(payload[NUMBER:], parts, chosen)
