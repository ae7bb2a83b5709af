"""Options of the codecs, apart from the code that reads them: plans are made, and sized, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.axes.codec_sizes import SEED, chosen_of, place_bytes, place_extent
from engine.catalogue import STRICT
from engine.errors import UserError, require_positive, require_within

_MOST_BLOCK = 2**20
_LEAST_RATIO = 0.0001
_LEAST_THRESHOLD = 1e-30
_MOST_WARMUP = 10**9
_MOST_RANK = 256
_STAGES = 5
"""Of a warm-up."""


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Of a codec whose neighbouring elements share a scale."""

    __pydantic_config__ = STRICT

    block: int = 256
    """Elements that share a scale of 4 bytes. Fewer: finer, and more bytes. A slice whose size is a multiple of it has
    the blocks that its layer would have as a whole."""

    def __post_init__(self) -> None:
        require_within("block", self.block, 8, _MOST_BLOCK)


@dataclass(frozen=True, kw_only=True)
class OneBitOptions(BlockOptions):
    """Of 1-bit SGD."""

    block: int = 512
    """Elements that share two means of 4 bytes each. Fewer: finer, and more bytes. A slice whose size is a multiple of
    it has the blocks that its layer would have as a whole."""


@dataclass(frozen=True, kw_only=True)
class QsgdOptions(BlockOptions):
    """Of QSGD."""

    bits: Literal[2, 4, 8] = 4
    """Of each element: 1, 7 or 127 levels on each side of zero. Fewer: less to send, and more noise."""
    block: int = 512
    """Elements that share a scale of 4 bytes: the paper's bucket. Fewer: less noise, and more bytes. A slice whose
    size is a multiple of it has the blocks that its layer would have as a whole."""


@dataclass(frozen=True, kw_only=True)
class TernGradOptions(BlockOptions):
    """Of TernGrad."""

    block: int = 512
    """Elements that share a scale of 4 bytes. Fewer: less noise, and more bytes. A slice whose size is a multiple of it
    has the blocks that its layer would have as a whole."""


@dataclass(frozen=True, kw_only=True)
class RatioOptions:
    """Of a codec that sends a fixed share of the elements."""

    __pydantic_config__ = STRICT

    ratio: float = 0.01
    """The share of a message's elements that is sent, at least one of them; 1: all."""
    value_bits: Literal[32, 16] = 32
    """Of each element that is sent. 16: half precision, divided by one scale of 4 bytes for each message, so that
    nothing overflows. A unit that is held in 16 bits is sent in its own type, without a scale."""

    def __post_init__(self) -> None:
        if not _LEAST_RATIO <= self.ratio <= 1:
            raise UserError(
                "ratio",
                self.ratio,
                f"must be from {_LEAST_RATIO} to 1",
                "Give the share of the elements that a message has, e.g. 0.01",
            )

    def scaled(self, item: int) -> bool:
        """Whether values travel as half precision beside a scale, where an element has `item` bytes itself."""
        return self.value_bits == 16 and item > 2

    def value_bytes(self, item: int) -> int:
        """Of each element that is sent, where an element has `item` bytes itself."""
        return min(item, self.value_bits // 8)

    def chosen(self, count: int, item: int) -> int:
        """How many of `count` elements a message has."""
        return chosen_of(count, self.ratio, self.value_bytes(item))

    def bytes(self, count: int, item: int, chosen: int) -> int:
        """Of `chosen` values of `count` elements, their scale, and which elements they are, not coded."""
        return self._valued(count, item, chosen) + place_bytes(count, chosen)

    def extent(self, count: int, item: int, chosen: int, message: memoryview, *, entropy_coding: bool) -> int:
        """The same of the message that `message` begins with."""
        before = self._valued(count, item, chosen)
        return before + place_extent(count, chosen, message[before:], entropy_coding=entropy_coding)

    def _valued(self, count: int, item: int, chosen: int) -> int:
        scale = 4 if self.scaled(item) and count else 0
        return scale + chosen * self.value_bytes(item)


@dataclass(frozen=True, kw_only=True)
class RandomOptions(RatioOptions):
    """Of a codec that sends elements which are drawn at random."""

    ratio: float = 0.01
    """The share of a message's elements that is sent, at least one of them; 1: all."""
    value_bits: Literal[32, 16] = 32
    """Of each element that is sent, as for top-k."""
    unbiased: bool = False
    """Whether what is sent is multiplied by how many elements there are for each that is sent, so that it is the
    gradient in the mean, and nothing is kept. Else as it is, and the others are kept for later messages."""

    def chosen(self, count: int, item: int) -> int:
        found = min(count, max(1, round(self.ratio * count)))
        value = self.value_bytes(item)
        return found if SEED + found * value < count * value else count

    def bytes(self, count: int, item: int, chosen: int) -> int:
        """Of `chosen` values of `count` elements, their scale, and what they were drawn from."""
        return self._valued(count, item, chosen) + (SEED if chosen < count else 0)

    def extent(self, count: int, item: int, chosen: int, message: memoryview, *, entropy_coding: bool) -> int:
        return self.bytes(count, item, chosen)


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """Of a codec that sends what reaches a threshold."""

    __pydantic_config__ = STRICT

    threshold: float = 0.01
    """What an element moves by in a message, if what has come together of it is at least as large. Gradients are
    divided by the global batch before."""

    def __post_init__(self) -> None:
        if not _LEAST_THRESHOLD <= self.threshold <= 1 / _LEAST_THRESHOLD:
            raise UserError(
                "threshold",
                self.threshold,
                f"must be from {_LEAST_THRESHOLD:g} to {1 / _LEAST_THRESHOLD:g}",
                "Give about the size of a layer's larger gradients",
            )


@dataclass(frozen=True, kw_only=True)
class PowerSgdOptions:
    """Of PowerSGD."""

    __pydantic_config__ = STRICT

    rank: int = 2
    """Columns of the two factors that a weight becomes. More: nearer to it, more bytes and more to compute."""

    def __post_init__(self) -> None:
        require_within("rank", self.rank, 1, _MOST_RANK)


@dataclass(frozen=True, kw_only=True)
class SignOptions:
    """Of signSGD."""

    __pydantic_config__ = STRICT

    momentum: float = 0.0
    """Of each worker's own gradients, ahead of its vote: Signum, of which 0.9 is usual. 0: it votes with the gradient
    itself."""

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise UserError("momentum", self.momentum, "must be at least 0 and less than 1", "Use e.g. 0.9")


@dataclass(frozen=True, kw_only=True)
class BinOptions:
    """Of AdaComp."""

    __pydantic_config__ = STRICT

    bin: int = 500
    """Neighbouring elements that are compared with the largest of them. The paper takes 500 for fully-connected and
    recurrent layers, 50 for convolutions."""

    def __post_init__(self) -> None:
        require_within("bin", self.bin, 2, _MOST_BLOCK)


@dataclass(frozen=True, kw_only=True)
class DgcOptions(RatioOptions):
    """Of Deep Gradient Compression."""

    ratio: float = 0.001
    """The share of a message's elements that is sent after the warm-up, at least one of them; 1: all."""
    value_bits: Literal[32, 16] = 32
    """Of each element that is sent, as for top-k."""
    momentum: float = 0.9
    """Of each worker's own gradients. The optimizer has none then."""
    nesterov: bool = False
    """Nesterov's momentum, as the authors' code has it."""
    masking: bool = True
    """Whether the momentum of an element ends when it is sent, so that it is not carried on by old gradients."""
    clip_norm: float | None = None
    """The largest norm of a message's own gradient, which is scaled down to it. Null: as it is. Gradients are divided
    by the global batch before."""
    warmup: int = 0
    """Messages of a unit (steps) in which more than `ratio` is sent, less and less of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise UserError("momentum", self.momentum, "must be at least 0 and less than 1", "Use e.g. 0.9")
        require_positive("clip_norm", self.clip_norm, "the largest norm of a gradient")
        require_within("warmup", self.warmup, 0, _MOST_WARMUP)

    def chosen_in(self, message: int, count: int, item: int) -> int:
        """How many of `count` elements the unit's `message` has, 0 being its first."""
        ratio = self.ratio
        if message < self.warmup:
            ratio **= (1 + message * _STAGES // self.warmup) / (_STAGES + 1)
        return chosen_of(count, ratio, self.value_bytes(item))
