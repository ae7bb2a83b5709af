"""ring-allreduce-overlap: buckets go around the ring while backward still runs.

Update rule and bytes as ring-allreduce; a bucket leaves as soon as the last of its gradients is there, and the
next forward pass of a layer waits only for its own bucket (papers 003, overlap with backpropagation).
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.options import GradientRoundsOptions


def build(model: ModelDescription, cluster: Cluster, options: GradientRoundsOptions) -> Plan:
    """Buckets around the ring, when ready."""
    return options.plan(
        "ring-allreduce-overlap",
        model,
        cluster,
        exchange="ring-allreduce",
        depart="when-ready",
        rank=options.rank,
    )


STRATEGY = Strategy(
    name="ring-allreduce-overlap",
    summary="Buckets go around the ring while backward still runs; forward waits only for its own bucket.",
    loses_when="one bucket holds most of the bytes and becomes ready last or is needed first.",
    source="papers 003 (overlap with backpropagation)",
    proof="exact",
    options=GradientRoundsOptions,
    build=build,
)
