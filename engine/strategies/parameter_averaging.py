"""parameter-averaging: every worker trains alone; every k steps all continue from the average of their parameters.

Update rule: w <- w + sum_i a_i (w_i - w), w_i being worker i's parameters after k steps of its own optimizer and a_i
its share of the samples (`engine/consistency/average.py` says the rest). With period 1, plain SGD and equal shards it
is synchronous SGD (papers 001, whose proof this follows); with momentum and the like it is not.
Bytes: those of one synchronous step over the chosen exchange, once in k steps: around the ring 2 (n-1)/n |W| per worker
and average; with the optimizer's state 2 |W| in place of |W| for momentum, 3 |W| for Adam.
Source: papers 001, parameter averaging. Deviations: the paper's driver is `central-reducer` here, and the default a
ring; differences travel in place of parameters.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.averaging import AveragingOptions
from engine.strategies.base import Strategy


def build(model: ModelDescription, cluster: Cluster, options: AveragingOptions) -> Plan:
    """Plain averages over the chosen exchange."""
    return options.averaged("parameter-averaging", model, cluster)


STRATEGY = Strategy(
    name="parameter-averaging",
    summary="Workers train alone and average their parameters every k steps, with or without the optimizer's state.",
    loses_when="k is so large that workers drift apart, or so small that it saves nothing over synchronous SGD.",
    source="papers 001 (parameter averaging)",
    proof="convergent",
    options=AveragingOptions,
    build=build,
)
