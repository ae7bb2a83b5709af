"""Codec: what travels?

Traits, which the compatibility rules ask for:
  linear     in phases, what all workers make may be summed on its way (`phases`)
  lossless   decode(encode(x)) == x
  as-is      nothing is encoded: what travels is the tensor itself
  by-value   how many elements a message has depends on their values
  close      a message alone is near what it stands for, so that it may travel where no other follows (factors)
  feedback   what a message lost is added to the same unit's next one (`engine/codec/feedback.py`)
  matrices   it factors matrices: of what has no rows it is as long as that
  own        it has a momentum of a worker's own gradients, which it keeps, and encodes nothing else
  random     what a message says is drawn at random, around what it stands for (`engine/codec/stochastic.py`)
  selects    a message has some of its elements only, or none of one that is small
  votes      a message has signs and no sizes: only servers that hear all workers make something of it, their majority
  sparse     a message says which elements it has, so that this may be entropy-coded (`engine/codec/places.py`)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.axes.codec_options import (
    BinOptions,
    BlockOptions,
    DgcOptions,
    OneBitOptions,
    PowerSgdOptions,
    QsgdOptions,
    RandomOptions,
    RatioOptions,
    SignOptions,
    TernGradOptions,
    ThresholdOptions,
)
from engine.axes.codec_sizes import NUMBER, number_at, signed_bytes, signed_extent
from engine.axes.matrices import Rows, runs_bytes, runs_of
from engine.catalogue import Axis, Mechanism, NoOptions


@dataclass(frozen=True, kw_only=True)
class Codec(Mechanism):
    """A codec's row."""

    size: Callable[[Any, int, int], int] = lambda options, count, item: count * item
    """(its options, elements of a message, bytes of one in its own type) -> bytes of the payload: exactly, or at most
    where it `varies`."""
    shaped: Callable[[Any, Sequence[Rows], int], int] | None = None
    """(its options, of which matrices a message's elements are rows, bytes of one in its own type) -> bytes of the
    payload, of a codec that asks for that; `size` is the most then."""
    varies: Callable[[Any], bool] = lambda options: False
    """(its options) -> whether messages of so many elements differ in length."""
    kept: Callable[[Any], int] = lambda options: 0
    """(its options) -> how many numbers a worker keeps of each element from one message to the next, beside a
    residual."""
    beside: Callable[[Any, Sequence[Rows]], int] = lambda options, rows: 0
    """(its options, of which matrices a message's elements are rows) -> how many numbers it keeps beside those."""
    working: float = 0.0
    """How many numbers of a unit's own type it holds for each element while it encodes one of several parameters,
    beside what is kept and the last message. Held to the allocator's count by a test."""
    by_options: Callable[[Any], frozenset[str]] | None = None
    """(its options) -> its traits, where they depend on these; `traits` has those of the defaults."""
    phases: Callable[[Any, Sequence[Rows]], tuple[int, ...]] | None = None
    """(its options, of which matrices a unit's elements are rows) -> how many numbers of the unit's own type all
    workers sum in each phase, where they can: then no message stands by itself (`Unit.phases`)."""
    summed: str | None = None
    """`module:attribute` of what makes these numbers, and a sum of them."""
    extent: Callable[[Any, int, int, memoryview, bool], int] | None = None
    """(its options, elements of a message, bytes of one in its own type, what has come, whether places are
    entropy-coded) -> bytes of the message that this begins with. None: no message says so, as each of so many elements
    is as long."""


def _two_bytes(options: NoOptions, count: int, item: int) -> int:
    return 2 * count


def _blocks(bits: int, numbers: int = 1) -> Callable[[BlockOptions, int, int], int]:
    """Codes of so many bits, and so many float32 numbers for each block of elements."""
    return lambda options, count, item: -(-count * bits // 8) + 4 * numbers * -(-count // options.block)


def _qsgd(options: QsgdOptions, count: int, item: int) -> int:
    return _blocks(options.bits)(options, count, item)


def _terngrad(options: TernGradOptions, count: int, item: int) -> int:
    """Five elements in a byte, and a float32 for each block."""
    return -(-count // 5) + 4 * -(-count // options.block)


def _chosen(options: RatioOptions, count: int, item: int) -> int:
    return options.bytes(count, item, options.chosen(count, item))


def _random_traits(options: RandomOptions) -> frozenset[str]:
    return frozenset({"random" if options.unbiased else "feedback", "selects"})


def _chosen_there(options: RatioOptions, count: int, item: int, message: memoryview, coded: bool) -> int:
    return options.extent(count, item, options.chosen(count, item), message, entropy_coding=coded)


def _two_bits(options: ThresholdOptions, count: int, item: int) -> int:
    return -(-count // 4)


def _factors(options: PowerSgdOptions, rows: Sequence[Rows], item: int) -> int:
    return runs_bytes(runs_of(rows, options.rank), options.rank, item)


def _factors_apart(options: PowerSgdOptions, rows: Sequence[Rows]) -> tuple[int, ...]:
    """The left factors, beside what is no matrix, and then the right ones."""
    runs = runs_of(rows, options.rank)
    right = sum(options.rank * run.width for run in runs if run.height)
    left = sum(options.rank * run.height if run.height else run.count for run in runs)
    return (left, right) if right else (left,)


def _bases(options: PowerSgdOptions, rows: Sequence[Rows]) -> int:
    """A factor of each matrix."""
    return sum(options.rank * run.width for run in runs_of(rows, options.rank) if run.height)


def _bits(options: SignOptions, count: int, item: int) -> int:
    return -(-count // 8)


def _signs(options: Any, count: int, item: int) -> int:
    return signed_bytes(count)


def _signs_there(options: Any, count: int, item: int, message: memoryview, coded: bool) -> int:
    return signed_extent(count, message, entropy_coding=coded)


def _momentum(options: DgcOptions, count: int, item: int) -> int:
    return NUMBER + options.bytes(count, item, options.chosen_in(0, count, item)) if count else 0


def _momentum_there(options: DgcOptions, count: int, item: int, message: memoryview, coded: bool) -> int:
    if not count:
        return 0
    chosen = number_at(message)
    return NUMBER + options.extent(count, item, chosen, message[NUMBER:], entropy_coding=coded)


CODEC = Axis(
    "codec",
    "What travels?",
    (
        Codec(
            name="fp32",
            summary="The tensor as it is: its own type, 4 bytes per element in float32. Exact.",
            implementation="engine.codec.fp32:FullPrecision",
            traits=frozenset({"lossless", "as-is"}),
        ),
        Codec(
            name="fp16",
            summary="Half precision on the wire, summed in full precision. Half the bytes; three quarters where a"
            " server updates, unless its answers have this codec, too.",
            implementation="engine.codec.fp16:HalfPrecision",
            working=0.5,
            size=_two_bytes,
            traits=frozenset({"close"}),
        ),
        Codec(
            name="bf16",
            summary="bfloat16 on the wire, summed in full precision: float32's range with 8 bits of mantissa. As many"
            " bytes as fp16.",
            implementation="engine.codec.bf16:BrainFloat",
            working=0.5,
            size=_two_bytes,
            traits=frozenset({"close"}),
        ),
        Codec(
            name="int8",
            summary="Whole numbers of 8 bits with a scale for each block, and a residual. A quarter of a"
            " gradient's bytes.",
            implementation="engine.codec.int8:Int8",
            working=3,
            options=BlockOptions,
            size=_blocks(8),
            traits=frozenset({"close", "feedback"}),
        ),
        Codec(
            name="fp8",
            summary="Floating point of 8 bits (e4m3) with a scale for each block, and a residual. As many bytes"
            " as int8; finer for small elements, coarser for large ones.",
            implementation="engine.codec.fp8:Fp8",
            working=3,
            options=BlockOptions,
            size=_blocks(8),
            traits=frozenset({"close", "feedback"}),
        ),
        Codec(
            name="int4",
            summary="Whole numbers of 4 bits with a scale for each block, and a residual. An eighth of a"
            " gradient's bytes.",
            implementation="engine.codec.int4:Int4",
            working=3,
            options=BlockOptions,
            size=_blocks(4),
            traits=frozenset({"feedback"}),
        ),
        Codec(
            name="one-bit",
            summary="1-bit SGD: signs, two means for each block, and a residual. A 28th of a gradient's"
            " bytes.",
            implementation="engine.codec.one_bit:OneBit",
            working=3,
            options=OneBitOptions,
            size=_blocks(1, numbers=2),
            traits=frozenset({"feedback"}),
        ),
        Codec(
            name="powersgd",
            summary="PowerSGD: a layer's weight as two thin factors (rank 2), and a residual. A 100th of the bytes of a"
            " weight of 1000 x 256, and less of larger ones.",
            implementation="engine.codec.powersgd:PowerSgd",
            working=3,
            options=PowerSgdOptions,
            shaped=_factors,
            beside=_bases,
            phases=_factors_apart,
            summed="engine.codec.summed_powersgd:SummedPowerSgd",
            traits=frozenset({"feedback", "linear", "matrices"}),
        ),
        Codec(
            name="signsgd",
            summary="signSGD with majority vote: signs alone, and servers answer with those of most workers; of each"
            " worker's momentum where it is given one (Signum). A 32nd of a gradient's bytes, and of its sum's.",
            implementation="engine.codec.signsgd:SignSgd",
            working=2,
            options=SignOptions,
            size=_bits,
            kept=lambda options: int(options.momentum > 0),
            traits=frozenset({"votes"}),
        ),
        Codec(
            name="qsgd",
            summary="QSGD: whole numbers of 2, 4 or 8 bits with a scale for each block, rounded at random, so that"
            " their mean is the gradient. An eighth of a gradient's bytes with 4 bits.",
            implementation="engine.codec.qsgd:Qsgd",
            working=1,
            options=QsgdOptions,
            size=_qsgd,
            traits=frozenset({"random"}),
        ),
        Codec(
            name="terngrad",
            summary="TernGrad: -1, 0 or 1 with a scale for each block, drawn at random, so that their mean is the"
            " gradient, cut off at 2.5 of its standard deviations. A 19th of a gradient's bytes.",
            implementation="engine.codec.terngrad:TernGrad",
            working=1,
            options=TernGradOptions,
            size=_terngrad,
            traits=frozenset({"random"}),
        ),
        Codec(
            name="top-k",
            summary="Gradient dropping: the largest elements (1 % of them), and a residual. A 67th of a gradient's"
            " bytes.",
            implementation="engine.codec.top_k:TopK",
            working=3,
            options=RatioOptions,
            size=_chosen,
            extent=_chosen_there,
            traits=frozenset({"feedback", "selects", "sparse"}),
        ),
        Codec(
            name="random-k",
            summary="Elements that are drawn at random (1 % of them), of which nothing but the draw's seed says which"
            " they are, and a residual. A 100th of a gradient's bytes.",
            implementation="engine.codec.random_k:RandomK",
            working=3,
            options=RandomOptions,
            size=_chosen,
            by_options=_random_traits,
            traits=_random_traits(RandomOptions()),
        ),
        Codec(
            name="two-bit",
            summary="MXNet's 2-bit compression: plus or minus a threshold, or nothing, and a residual. A 16th of a"
            " gradient's bytes.",
            implementation="engine.codec.two_bit:TwoBit",
            working=3,
            options=ThresholdOptions,
            size=_two_bits,
            traits=frozenset({"feedback", "selects"}),
        ),
        Codec(
            name="threshold",
            summary="Strom: plus or minus a threshold for the elements that reach it, and a residual. 17 bits for each"
            " that is sent; a 16th of a gradient's bytes at most.",
            implementation="engine.codec.threshold:Threshold",
            working=4.25,
            options=ThresholdOptions,
            size=_signs,
            varies=lambda options: True,
            extent=_signs_there,
            traits=frozenset({"by-value", "feedback", "selects", "sparse"}),
        ),
        Codec(
            name="adacomp",
            summary="AdaComp: the elements that stand out of their bin, as one size with signs, and a residual. 17 bits"
            " for each that is sent; a 16th of a gradient's bytes at most.",
            implementation="engine.codec.adacomp:AdaComp",
            working=6,
            options=BinOptions,
            size=_signs,
            varies=lambda options: True,
            extent=_signs_there,
            traits=frozenset({"by-value", "feedback", "selects", "sparse"}),
        ),
        Codec(
            name="dgc",
            summary="Deep Gradient Compression: the largest elements (0.1 % of them) of a worker's momentum, of its own"
            " gradients alone. A 660th of a gradient's bytes.",
            implementation="engine.codec.dgc:Dgc",
            working=4,
            options=DgcOptions,
            size=_momentum,
            varies=lambda options: options.warmup > 0,
            extent=_momentum_there,
            kept=lambda options: 2,
            traits=frozenset({"own", "selects", "sparse"}),
        ),
    ),
)
