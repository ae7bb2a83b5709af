"""ring-allreduce-overlap: buckets go around the ring while backward still runs.

Update rule and bytes as ring-allreduce; a bucket leaves as soon as the last of its gradients is there, and the
next forward pass of a layer waits only for its own bucket (papers 003, overlap with backpropagation). Deviation: what
that pass needs first goes first (`rank`), where the paper goes by readiness: VGG-19's step is then 0.85 times as long;
on other models the two have not been compared (DECISIONS 96).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.options import GradientRoundsOptions


@dataclass(frozen=True, kw_only=True)
class Options(GradientRoundsOptions):
    """As those of the other rings, by priority unless asked otherwise."""

    rank: Literal["fifo", "priority"] = "priority"
    """`priority`: what the next forward pass needs first goes first, as in p3; `fifo`: first come, first served."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
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
    options=Options,
    build=build,
)
