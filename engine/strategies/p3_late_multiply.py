"""p3+late-multiply: what is heavy shrinks to its factors, and the rest travels in the order in which it is needed.

Update rule: fully-connected layers as late-multiply, everything else as p3 (papers 000, section 2.1; papers 004,
section 4.2). Factors are messages like slices: their priority is the layer's forward position, at every queue, and a
more urgent slice overtakes them on their way. They travel whole, because a row belongs to the whole layer.
Bytes: of a fully-connected layer (n-1) M_all (N+K) elements over all links instead of 2 (n-1) N K; of the others as p3.
Two homes of the optimizer: workers update the late-multiplied layers, servers the others.
Loses where both do: large batches, networks without fully-connected layers (then it is p3), networks that hide all.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies import parameter_slicing
from engine.strategies.base import Strategy
from engine.strategies.late_multiply import FactorLayers, by_factors


@dataclass(frozen=True, kw_only=True)
class Options(parameter_slicing.Options):
    """Options of p3+late-multiply."""

    layers: FactorLayers = "fewer-bytes"
    """Which fully-connected layers travel by factors: `fewer-bytes`: those that move fewer bytes so; `all`: every one,
    to see what that costs."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Factors and slices, when ready, by forward position."""
    plan = parameter_slicing.sliced("p3+late-multiply", "priority", model, cluster, options)
    return by_factors(plan, model, cluster, options, layers=options.layers, rank="priority")


STRATEGY = Strategy(
    name="p3+late-multiply",
    summary="Fully-connected layers by factors, everything else in slices by priority: two papers in one job.",
    loses_when="batches are large, or computation hides all communication anyway.",
    source="papers 000 section 2.1 and 004 section 4.2",
    proof="exact",
    options=Options,
    build=build,
)
