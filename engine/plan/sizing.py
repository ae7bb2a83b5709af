"""Sizes of what travels, where they are left to us (`auto`).

What travels in small pieces overlaps better, and an urgent piece waits for less; but each message costs processor time,
whatever its size. So a piece is as small as lets messages cost at most SHARE of the time that they are on their link:

    bytes of a message >= message_s * rate / SHARE

with what a message costs on this machine (`engine/message_cost.py`) and the rate of a host's link. Two bounds hold
before that: a least size, and that each server shard gets several pieces. Sizes double from the least one on, so that
what is measured twice on one machine more often gives the same. A rehearsal divides sizes and rates alike, not
what a message costs: the rule gives the same for the true cluster and for its rehearsal. A model that is too small for
pieces above the least size gets the least, whatever a message costs. Where the cost could not be measured, pieces have
their usual size.
Loses to a tuned number where steps are bound by computation, where larger pieces cost less and nothing waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.axes.matrices import rows_of
from engine.plan.cluster import Cluster
from engine.plan.description import LayerDescription
from engine.plan.encoding import Encoding, encoding
from engine.plan.units_of_measure import format_bytes

AUTO = "auto"
"""What an option says that is left to us."""
SIZES = ("slice_size", "bucket_bytes")
"""The options that may."""
SHARE = 0.1
"""Of the time on the link: then a message's two ends keep one processor a tenth busy in each direction. Chosen, as
PARTS is, not tuned; with them p3 is faster than `ddp` on VGG-19 and
ResNet-50, and slower on a Sockeye-shaped model (DECISIONS 96)."""
LEAST_SLICE = 50_000
"""Elements: the best of papers 004, section 5.6."""
LEAST_BUCKET = 2**20
"""Bytes."""
USUAL_SIZE = {"slice": LEAST_SLICE, "bucket": 2**22}
"""Of what nobody sizes: elements of P3's best slice, bytes of our rings' bucket."""
PARTS = 8
"""Slices that each shard gets at least, and buckets that a model has, so that they can overlap."""
UNKNOWN_BPS = 10_000_000_000
"""Taken for a link whose rate nobody has said."""


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A size, and why it was chosen: a sentence."""

    size: int
    why: str


def slice_elements(
    layers: tuple[LayerDescription, ...], cluster: Cluster, shards: int, way: Encoding
) -> Sized:
    """Elements of a slice, for `layers` whose gradients travel in this `way` to so many server shards."""
    count, _, sent = _counted(layers, way)
    most = count / (PARTS * shards)
    size, why = _chosen(cluster, count / sent, "slice", LEAST_SLICE, most)
    return Sized(size=size, why=f"Slices have up to {size:,} elements (slice_size: auto): {why}")


def bucket_bytes(layers: tuple[LayerDescription, ...], cluster: Cluster, way: Encoding) -> Sized:
    """Bytes of a bucket, before it is encoded, that all workers sum in rounds: each message is a worker's share."""
    _, held, sent = _counted(layers, way)
    size, why = _chosen(cluster, cluster.workers * held / sent, "bucket", LEAST_BUCKET, held / PARTS)
    return Sized(size=size, why=f"Buckets have {format_bytes(size)} (bucket_bytes: auto): {why}")


def asks_what_messages_cost(layers: tuple[LayerDescription, ...]) -> bool:
    """Whether the sizes of these layers' pieces can depend on it, with any codec and any number of shards."""
    count, held, _ = _counted(layers, encoding("fp32"))
    return count / PARTS >= 2 * LEAST_SLICE or held / PARTS >= 2 * LEAST_BUCKET


def _counted(layers: tuple[LayerDescription, ...], way: Encoding) -> tuple[int, int, int]:
    """Elements that are trained, their bytes, and their gradients' bytes as they travel."""
    trained = [p for layer in layers for p in layer.parameters if p.trainable]
    return (
        sum(p.count for p in trained),
        sum(p.nbytes for p in trained),
        sum(way.bytes(p.dtype, p.count, [rows_of(p.shape, 0, p.count)]) for p in trained),
    )


def _chosen(cluster: Cluster, per_byte: float, unit: str, least: int, most: float) -> tuple[int, str]:
    """For a `unit`: the smallest of `least`, twice that, and so on, whose messages are long enough, as long as it is
    not above `most`; and why. `per_byte`: how much of what is sized goes with a byte of a message."""
    if most < 2 * least:
        return least, "this model is too small for longer ones"
    assert cluster.message is not None, "given by build_plan"
    if cluster.message.seconds is None:
        return USUAL_SIZE[unit], "what a message costs on this machine is not known"
    wanted = cluster.message.seconds * (_rate(cluster) or UNKNOWN_BPS) / 8 / SHARE * per_byte
    size = least
    while size < wanted and 2 * size <= most:
        size *= 2
    return size, _why(cluster, cluster.message.seconds, least, wanted, size)


def _why(cluster: Cluster, message_s: float, least: int, wanted: float, size: int) -> str:
    rate = _rate(cluster)
    link = (
        f"is {rate / 1e6:g} Mbit/s" if rate else "is not known (network.declared_rate) and taken as 10 Gbit/s"
    )
    costs = f"a message costs {message_s * 1e6:.0f} µs of a processor here, and the link {link}"
    if size < wanted:
        return f"{costs}: longer ones would cost less, but this model would be cut into too few of them"
    return f"{costs}: {'shorter ones gain nothing' if size == least else 'shorter ones would cost more'}"


def _rate(cluster: Cluster) -> int | None:
    return cluster.rate_bps or cluster.declared_bps
