"""ring-allreduce: scatter-reduce and allgather around a ring when backward has ended.

Update rule: every worker ends with sum_i g_i and updates its own replica. Bytes: each worker sends and receives
2 (n-1)/n |W| per step, independent of n in the limit (papers 003). Latency: 2 (n-1) rounds per bucket, so many
small tensors are slow: they travel in buckets. Nothing overlaps computation here.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import CodecOptions, at_least_one


@dataclass(frozen=True, kw_only=True)
class Options(CodecOptions):
    """Options of the ring."""

    bucket_bytes: int = 4 * 1024 * 1024
    """Neighbouring layers are joined until a bucket holds this many bytes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("bucket_bytes", self.bucket_bytes, "bytes")


def ring(strategy: str, depart: str, model: ModelDescription, options: Options) -> Plan:
    """Buckets around the ring, departing as told: what both ring strategies share."""
    return uniform(
        strategy,
        model,
        exchange="ring-allreduce",
        codec=options.codec,
        order=Order(unit="bucket", size=options.bucket_bytes, depart=depart, rank="fifo"),
    )


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Buckets around the ring after backward."""
    return ring("ring-allreduce", "after-backward", model, options)


STRATEGY = Strategy(
    name="ring-allreduce",
    summary="Scatter-reduce, then allgather, around a ring after backward: every port carries 2 (n-1)/n of the model.",
    loses_when="communication could overlap backward, or rounds of a long ring cost more than the bytes.",
    source="papers 003 (ring allreduce)",
    proof="exact",
    options=Options,
    build=build,
)
