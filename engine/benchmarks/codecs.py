"""How fast does each codec encode and decode on one core?

Slices of 50,000 and of 800,000 elements, normally distributed, in float32. Gradients come from memory, not from the
core's cache: each round goes once over as many slices as hold 64 MiB. What keeps a residual is measured with it, as
jobs use it. Codecs take turns, so that other load on the machine meets all of them. Rates are gigabytes of gradient in
a second, whatever travels of them: a link at r Gbit/s takes r / 8 of those as they are.
Run: `python -m engine.benchmarks.codecs`; `--codecs qsgd,terngrad` for some of them.
"""

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
from engine.benchmarks.harness.report import Report, arguments
from engine.codec.base import Piece, UnitCodec
from engine.codec.opening import opened
from engine.gang.allocator import keep_freed_memory
from engine.plan.encoding import Encoding, encoding
from engine.tensor_bytes import as_bytes, joined

SIZES = (50_000, 800_000)
TOTAL_BYTES = 64 * 2**20
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

    def __init__(self, way: Encoding, slices: Slices) -> None:
        self.way = way
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
            self.rates[work].append(self.slices.gigabytes / _seconds(run))

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


def _seconds(run: Callable[[], None]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main() -> None:
    parser = arguments(__doc__)
    known = [codec.name for codec in CODEC if codec.available]
    parser.add_argument("--codecs", default=",".join(known), help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    names = [CODEC.require(name, "codecs").name for name in options.codecs.split(",")]
    rounds, total = (2, 4 * 2**20) if options.quick else (options.rounds, TOTAL_BYTES)
    torch.set_num_threads(1)
    keep_freed_memory()
    title, question = "Codecs on one core", "How fast does each codec encode and decode?"
    with Report("codecs", title, question, options) as report:
        trials = [
            Trial(way, slices) for slices in (Slices.of(n, total) for n in SIZES) for way in ways(names)
        ]
        seconds = len(trials) * rounds * 3 * total / 1e9
        report.plan([f"{len(trials)} codecs and sizes, {rounds} rounds"], minutes=seconds / 60)
        report.method(
            "One thread, one process, with the allocator set as in jobs. A round goes over"
            f" {total / 2**20:.0f} MiB of slices that are normally distributed; codecs take turns; medians of {rounds}"
            " rounds after one that is not counted. GB/s of float32 gradient; `encode` includes the residual of those"
            " that keep one, and putting the message together; `decode` writes over float32, `decode and add` adds to"
            " it. `bytes` is the share of the gradient's bytes that travels."
        )
        for trial in trials:
            trial.round()
            for rates in trial.rates.values():
                rates.clear()
        for turn in range(rounds):
            for trial in trials if turn % 2 == 0 else reversed(trials):
                trial.round()
        for trial in trials:
            report.raw(trial.raw())
        columns = ["codec", "elements", "bytes", *(f"{work}, GB/s" for work in WORK)]
        report.table("On one core", columns, [trial.row() for trial in trials])


if __name__ == "__main__":
    main()
