"""async-sgd: parameter servers apply each worker's gradient when it comes; nobody waits for another worker.

Update rule: w <- update(w, g_r(w_s)), one worker's gradient at a time, computed on the version that it last had
(`engine/consistency/asynchronous.py`). Bytes per step as p3 or parameter-server: every worker sends and receives |W|.
Workers that are equally fast learn less from a step than under parameter-server, since n - 1 updates lie between most
gradients' version and theirs; where one is slow the others go on.
Source: papers 001 (asynchronous SGD), after Dean et al. 2012. Deviations: a gradient is that of the worker's share
of the global batch, so that n of them are one step of synchronous SGD; staleness is counted for each unit by itself.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.drifting import UnboundedOptions


def build(model: ModelDescription, cluster: Cluster, options: UnboundedOptions) -> Plan:
    """Slices by priority, each applied when it arrives."""
    return options.asynchronous("async-sgd", model, cluster, "constant")


STRATEGY = Strategy(
    name="async-sgd",
    summary="Servers apply each worker's gradient when it comes; no worker waits for another.",
    loses_when="all workers are equally fast: gradients are stale, and nobody had to be waited for.",
    source="papers 001 (asynchronous SGD)",
    proof="convergent",
    options=UnboundedOptions,
    build=build,
)
