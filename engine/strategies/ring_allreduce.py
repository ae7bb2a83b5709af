"""ring-allreduce: scatter-reduce and allgather around a ring when backward has ended.

Update rule: every worker ends with sum_i g_i and updates its own replica. Bytes: each worker sends and receives
2 (n-1)/n |W| per step, independent of n in the limit (papers 003). Latency: 2 (n-1) rounds per bucket, so many
small tensors are slow: they travel in buckets. A layer larger than a bucket is cut into slices of its size: a round
is added when all of it has come, and meanwhile the links carry another slice. Nothing overlaps computation here.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.options import GradientRoundsOptions


def build(model: ModelDescription, cluster: Cluster, options: GradientRoundsOptions) -> Plan:
    """Buckets around the ring after backward."""
    return options.plan(
        "ring-allreduce",
        model,
        cluster,
        exchange="ring-allreduce",
        depart="after-backward",
        rank=options.rank,
    )


STRATEGY = Strategy(
    name="ring-allreduce",
    summary="Scatter-reduce, then allgather, around a ring after backward: every port carries 2 (n-1)/n of the model.",
    loses_when="communication could overlap backward, or rounds of a long ring cost more than the bytes.",
    source="papers 003 (ring allreduce)",
    proof="exact",
    options=GradientRoundsOptions,
    build=build,
)
