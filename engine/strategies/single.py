"""single: one worker, nothing travels. The baseline that speed-up is measured against (papers 000, Table 2; 002).

Update rule: w <- w - lr * g(w; the global batch). Bytes: none.
"""

from __future__ import annotations

from engine.catalogue import NoOptions
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy, uniform


def build(model: ModelDescription, cluster: Cluster, options: NoOptions) -> Plan:
    """One worker holds every layer."""
    if cluster.workers != 1:
        raise UserError(
            "strategy.name",
            "single",
            f"single runs on one worker, and the job has {cluster.workers}",
            "Choose another strategy, or use workers: 1",
        )
    return uniform("single", model, exchange="none")


STRATEGY = Strategy(
    name="single",
    summary="One worker trains alone: the baseline for every speed-up.",
    loses_when="more than one device is there and the network is not hopeless.",
    source="baseline of papers 000 (Table 2) and 002",
    proof="exact",
    options=NoOptions,
    build=build,
)
