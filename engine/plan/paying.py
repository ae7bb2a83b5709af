"""When a codec pays: from which rate of a host's link down it saves time. One formula, with what it assumes.

    saved, on the link      8 (B0 - B) / r   seconds of a step at r bit/s
    spent, on a processor   C = e E + d D    seconds of a step
    it pays where r is below  8 (B0 - B) / C

B0 and B: bytes of a step through the busiest port, one direction of one host, as they are and with the codec, of this
plan for this model. E and D: elements that the busiest party encodes, and decodes; e and d: what one of them costs on
this machine, on one core (`engine/codec/cost.py`).

Assumed: the link and the processor that encodes are both what a step waits for, and neither works while the other does
nor while the model is computed. Where units are encoded while others are on their way, a codec pays above that rate,
too; where the link is never waited for, as behind a long backward pass, it pays below another one, or never. All
parties encode at the same time, each on a core of its own. What a message costs beside its bytes, latency, and what
the training needs in steps, are left out: this is about time for a step, not about accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.catalogue import STRICT
from engine.plan.units_of_measure import format_bytes, format_rate

ASSUMED = (
    "Below that rate of a host's link the codec saves more time on the link than it takes on one core of this machine,",
    "as if a step waited for both, one after the other. Encoding while others are on their way pays at higher rates,",
    "too; a link that is never waited for has nothing to save. Accuracy is another question: see trainyard best.",
)


@dataclass(frozen=True, kw_only=True)
class CodecCost:
    """What a codec costs on a machine, of one core."""

    __pydantic_config__ = STRICT

    encode_ns: float
    """Nanoseconds for each element that is encoded, and of which is kept what that loses."""
    decode_ns: float
    """Nanoseconds for each element that is decoded and added."""


@dataclass(frozen=True, kw_only=True)
class CodecCosts:
    """What codecs cost on a machine."""

    __pydantic_config__ = STRICT

    by_codec: Mapping[str, CodecCost] = field(default_factory=dict)
    """With their default options. Empty where it could not be measured."""
    why: str = ""
    """Why not."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one step of a plan moves and encodes."""

    port_bytes: int
    """Through the busiest direction of a host."""
    encoded: int = 0
    """Elements, on the party where all of it takes longest."""
    decoded: int = 0


@dataclass(frozen=True, kw_only=True)
class Paying:
    """Where a codec pays, for one job."""

    __pydantic_config__ = STRICT

    codec: str
    """With its default options, but for the job's own."""
    mine: bool = False
    """Whether it is the job's own."""
    port_bytes: int | None = None
    """Of a step through the busiest direction of a host; null where the plan is refused with this codec."""
    seconds: float | None = None
    """That a step spends on the busiest party's core for it; null where that is not known."""
    below_bps: float | None = None
    """It saves time where a host's link has less than so many bits in a second; null where that is not a number."""
    why: str = ""
    """Then what it is, and why: never, always, or not known."""

    @property
    def verdict(self) -> str:
        """For people."""
        return f"pays below {format_rate(round(self.below_bps))}" if self.below_bps else self.why


def rate_below(as_is: Load, load: Load, seconds: float) -> float:
    """The rate, in bit/s, below which a codec saves time that spends so many `seconds`."""
    return 8 * (as_is.port_bytes - load.port_bytes) / seconds


def seconds_of(load: Load, cost: CodecCost) -> float:
    """Of one core, for one step."""
    return (load.encoded * cost.encode_ns + load.decoded * cost.decode_ns) * 1e-9


def paying(as_is: Load, load: Load, codec: str, costs: CodecCosts, *, mine: bool = False) -> Paying:
    """What to say of one codec, whose plan moves and encodes `load`. `codec`: the name in its row."""
    if load.port_bytes >= as_is.port_bytes:
        why = "never pays here: it moves as many bytes through the busiest port"
        return Paying(codec=codec, mine=mine, port_bytes=load.port_bytes, why=why)
    cost = costs.by_codec.get(codec)
    if cost is None:
        why = f"what it costs on this machine is not known: {costs.why or 'it was not measured'}"
        return Paying(codec=codec, mine=mine, port_bytes=load.port_bytes, why=why)
    seconds = seconds_of(load, cost)
    if not seconds:
        why = "pays at any rate: nothing passes through it on any party"
        return Paying(codec=codec, mine=mine, port_bytes=load.port_bytes, seconds=0.0, why=why)
    return Paying(
        codec=codec,
        mine=mine,
        port_bytes=load.port_bytes,
        seconds=seconds,
        below_bps=rate_below(as_is, load, seconds),
    )


def table(found: list[Paying]) -> list[tuple[str, ...]]:
    """For people: a head, and a row for each."""
    head = ("codec", "bytes through the busiest port", "core time", "where it pays")
    return [
        head,
        *(
            (
                one.codec + (" (this job's)" if one.mine else ""),
                "-" if one.port_bytes is None else format_bytes(one.port_bytes),
                "-" if one.seconds is None else f"{1e3 * one.seconds:.3g} ms",
                one.verdict,
            )
            for one in found
        ),
    ]
