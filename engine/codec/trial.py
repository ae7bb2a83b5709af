"""Trials: how fast a codec encodes and decodes on one core, on slices that come from memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from engine.axes.codec import CODEC
from engine.axes.matrices import Rows
from engine.codec.base import Piece, UnitCodec
from engine.codec.opening import opened
from engine.plan.encoding import Encoding, encoding
from engine.tensor_bytes import as_bytes, joined

WORK = ("encode", "decode", "decode and add")


def ways(names: Sequence[str]) -> list[Encoding]:
    """The codecs of these names; of an option that is one of a few values, with each of them."""
    found = []
    for name in names:
        hints = get_type_hints(CODEC[name].options)
        few = {option: get_args(hint) for option, hint in hints.items() if get_origin(hint) is Literal}
        found += [encoding(name, dict(zip(few, chosen, strict=True))) for chosen in product(*few.values())]
    return found


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Slices of one size: gradients, and memory for what comes back of them."""

    gradients: list[Tensor]
    found: list[Tensor]

    @classmethod
    def of(cls, count: int, total_bytes: int) -> Slices:
        draw = torch.Generator().manual_seed(1)
        number = max(total_bytes // (4 * count), 1)
        gradients = [torch.randn(count, generator=draw) for _ in range(number)]
        return cls(gradients=gradients, found=[torch.zeros(count) for _ in range(number)])

    @property
    def gigabytes(self) -> float:
        return sum(gradient.nbytes for gradient in self.gradients) / 1e9


INPUTS = 512
"""Elements of a row, for a codec that factors matrices."""


class Trial:
    """One codec on slices of one size, each of which is a unit with a codec of its own."""

    def __init__(self, way: Encoding, slices: Slices, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock`: seconds."""
        self.way = way
        self._clock = clock
        self.slices = slices
        self.rates: dict[str, list[float]] = {work: [] for work in WORK}
        """Gigabytes of gradient in a second, one for each round."""
        self._codecs: list[UnitCodec] = []
        for number, gradient in enumerate(slices.gradients):
            piece = Piece(
                name=f"slice {number}",
                count=len(gradient),
                dtype=torch.float32,
                rows=(_rows(gradient),),
                seed=number,
            )
            self._codecs.append(opened(way, piece))

    def round(self) -> None:
        """Once over all slices, with each of WORK."""
        sent: list[memoryview] = []

        def encode() -> None:
            for codec, gradient in zip(self._codecs, self.slices.gradients, strict=True):
                sent.append(joined([as_bytes(tensor) for tensor in codec.encode([gradient], [0])]))

        def decode() -> None:
            for codec, payload, found in zip(self._codecs, sent, self.slices.found, strict=True):
                codec.decode(payload, [found])

        def decode_add() -> None:
            for codec, payload, found in zip(self._codecs, sent, self.slices.found, strict=True):
                codec.decode_add(payload, [found])

        for work, run in zip(WORK, (encode, decode, decode_add), strict=True):
            begin = self._clock()
            run()
            self.rates[work].append(self.slices.gigabytes / (self._clock() - begin))

    def row(self) -> list[object]:
        """Medians of the rounds."""
        count = len(self.slices.gradients[0])
        share = self.way.bytes("float32", count, [_rows(self.slices.gradients[0])]) / (4 * count)
        return [self.way.text, count, share, *(statistics.median(self.rates[work]) for work in WORK)]

    def raw(self) -> Iterator[dict[str, object]]:
        for work, rates in self.rates.items():
            yield {
                "codec": self.way.text,
                "elements": len(self.slices.gradients[0]),
                "work": work,
                "median": statistics.median(rates),
                "least": min(rates),
                "most": max(rates),
                "rounds": [round(rate, 4) for rate in rates],
            }


def _rows(gradient: Tensor) -> Rows:
    """As of a layer with so many inputs."""
    return Rows(len(gradient), INPUTS)
