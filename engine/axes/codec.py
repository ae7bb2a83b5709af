"""Codec: what travels?

Traits: `lossless` (decode(encode(x)) == x), `reducible` (encoded tensors can be summed on their way).
"""

from engine.catalogue import Axis, Mechanism

_LATER = "compression with error feedback is not built yet"
ELEMENT_BYTES = {"fp16": 2, "bf16": 2}
"""By codec: bytes of one element on the wire, where they are not those of its own type."""

CODEC = Axis(
    "codec",
    "What travels?",
    (
        Mechanism(
            name="fp32",
            summary="The tensor as it is: its own type, 4 bytes per element in float32. Exact.",
            implementation="engine.codec.fp32:FullPrecision",
            traits=frozenset({"lossless", "reducible"}),
        ),
        Mechanism(
            name="fp16",
            summary="Half precision on the wire, summed in full precision. Half the bytes; three quarters where a"
            " server updates, because updated parameters return in their own precision.",
            implementation="engine.codec.fp16:HalfPrecision",
            traits=frozenset({"reducible"}),
        ),
        Mechanism(
            name="bf16",
            summary="bfloat16 on the wire, summed in full precision: float32's range with 8 bits of mantissa. As many"
            " bytes as fp16.",
            implementation="engine.codec.bf16:BrainFloat",
            traits=frozenset({"reducible"}),
        ),
        Mechanism(name="one-bit", summary="1-bit SGD: signs and two means, with a residual.", missing=_LATER),
        Mechanism(name="qsgd", summary="QSGD: unbiased stochastic levels per bucket.", missing=_LATER),
        Mechanism(name="terngrad", summary="TernGrad: -1, 0, +1 times a shared scale.", missing=_LATER),
        Mechanism(
            name="top-k", summary="Gradient dropping: the largest entries and a residual.", missing=_LATER
        ),
        Mechanism(
            name="adacomp", summary="AdaComp: per-bin selection by residual and gradient.", missing=_LATER
        ),
        Mechanism(
            name="dgc", summary="Deep Gradient Compression: top-k with corrected momentum.", missing=_LATER
        ),
        Mechanism(
            name="threshold", summary="Strom: entries beyond a threshold, with a residual.", missing=_LATER
        ),
    ),
)
