"""ring-allreduce: scatter-reduce and allgather around a ring when backward has ended.

Update rule: every worker ends with sum_i g_i and updates its own replica. Bytes: each worker sends and receives
2 (n-1)/n |W| per step, independent of n in the limit (papers 003). Latency: 2 (n-1) rounds per bucket, so many
small tensors are slow: they travel in buckets. A layer larger than a bucket is cut into slices of its size: a round
is added when all of it has come, and meanwhile the links carry another slice. Nothing overlaps computation here.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cluster import Cluster
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.plan import LayerPlan, Order, Plan
from engine.strategies.base import Strategy, plan_every_layer
from engine.strategies.options import CodecOptions, at_least_one


@dataclass(frozen=True, kw_only=True)
class Options(CodecOptions):
    """Options of the ring."""

    bucket_bytes: int = 4 * 1024 * 1024
    """Neighbouring layers are joined until a bucket holds this many bytes; larger ones are cut into slices of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("bucket_bytes", self.bucket_bytes, "bytes")


def ring(strategy: str, depart: str, model: ModelDescription, options: Options) -> Plan:
    """Buckets and slices around the ring, departing as told: what both ring strategies share."""

    def choose(layer: LayerDescription) -> LayerPlan:
        unit, size = "bucket", options.bucket_bytes
        if layer.parameter_bytes > options.bucket_bytes:
            unit, size = (
                "slice",
                max(1, options.bucket_bytes * layer.parameter_count // layer.parameter_bytes),
            )
        return LayerPlan(
            layer=layer.name,
            exchange="ring-allreduce",
            codec=options.codec,
            order=Order(unit=unit, size=size, depart=depart, rank="fifo"),
        )

    return plan_every_layer(strategy, model, choose)


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
