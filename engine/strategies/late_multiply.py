"""late-multiply: fully-connected layers send inputs and error derivatives, and every worker multiplies; the rest goes
around a ring.

Update rule: grad W = E^T X and grad b = the column sums of E, where X and E are the rows of all workers; every
worker then updates its own replica (papers 000, section 2.1, Algorithm 2; `engine/exchange/factors.py` says more).
Bytes of a layer with N inputs and K outputs: each worker sends (n-1) M (N+K) elements for M rows of its own instead of
2 (n-1)/n N K, so n workers together (n-1) M_all (N+K) instead of 2 (n-1) N K. Layers where that is not less, and all
others, are in buckets around the ring, as under ring-allreduce-overlap.
Rows: one per sample; where a layer sees a sequence, one per position; where it is used t times in a step, t.
Loses where a step has many rows, and on slow devices: the product of all workers' rows is computed n times over.
Baseline: central-reduce with `update: worker` is the paper's Algorithm 1.
Deviation: the paper averages; we sum what was divided by the global batch before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from engine.axes.exchange import EXCHANGE
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import LayerPlan, Order, Plan, Servers
from engine.plan.traffic import factors_against_gradient
from engine.strategies.base import Strategy
from engine.strategies.options import CodecOptions, RoundsOptions

FactorLayers: TypeAlias = Literal["fewer-bytes", "all"]


@dataclass(frozen=True, kw_only=True)
class Options(RoundsOptions):
    """Options of late-multiply."""

    layers: FactorLayers = "fewer-bytes"
    """Which fully-connected layers travel by factors: `fewer-bytes`: those that move fewer bytes so; `all`: every one,
    to see what that costs."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Factors when ready; the rest in buckets around the ring."""
    plan = options.plan("late-multiply", model, cluster, exchange="ring-allreduce", depart="when-ready")
    return by_factors(plan, model, cluster, options, layers=options.layers, rank="fifo")


def by_factors(
    plan: Plan,
    model: ModelDescription,
    cluster: Cluster,
    options: CodecOptions,
    *,
    layers: FactorLayers,
    rank: str,
) -> Plan:
    """`plan` with its fully-connected layers late-multiplied, as far as `layers` says, and without servers where
    no layer is left for them."""
    assert cluster.workload is not None, "made by cluster_of"
    order, chosen = Order(unit="layer", depart="when-ready", rank=rank), list(plan.layers)
    warnings = list(plan.warnings)
    for i, entry in enumerate(plan.layers):
        layer = model.layer(entry.layer)
        if layer.factors is not None and (
            layers == "all" or factors_against_gradient(layer, cluster.workload, options.way) < 1
        ):
            chosen[i] = LayerPlan(layer=entry.layer, exchange="factors", **options.travels, order=order)
        elif layer.no_factors:
            warnings.append(f"{layer.title} travels as a gradient, not by factors: {layer.no_factors}.")
    served = any("server" in EXCHANGE[entry.exchange].traits for entry in chosen)
    servers = plan.servers if served else Servers()
    return replace(plan, layers=tuple(chosen), servers=servers, warnings=tuple(warnings))


STRATEGY = Strategy(
    name="late-multiply",
    summary="Fully-connected layers send inputs and error derivatives; every worker multiplies; the rest is a ring.",
    loses_when="batches are large, or no layer is fully-connected: then it is ring-allreduce-overlap.",
    source="papers 000 section 2.1 (Algorithm 2)",
    proof="exact",
    options=Options,
    build=build,
)
