"""staleness-aware: as async-sgd, and the older the version that a gradient was computed on, the less it counts.

Update rule: w <- update(w, g_r(w_s) / max(1, s)), s being the updates of the unit since that version
(`engine/consistency/asynchronous.py`). Bytes as async-sgd.
Source: papers 001, after Zhang et al. 2016 ("Staleness-aware async-SGD"), who divide the learning rate: with plain SGD
it is the same. Deviation: with an optimizer that normalizes (adam), to divide the gradient is not to divide the rate.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.drifting import UnboundedOptions


def build(model: ModelDescription, cluster: Cluster, options: UnboundedOptions) -> Plan:
    """As async-sgd, each gradient over its staleness."""
    return options.asynchronous("staleness-aware", model, cluster, "staleness")


STRATEGY = Strategy(
    name="staleness-aware",
    summary="As async-sgd; a gradient counts less the more updates it has missed.",
    loses_when="workers are many and equally fast: each gradient counts 1/n, and training slows down.",
    source="papers 001 (staleness-aware asynchronous SGD)",
    proof="convergent",
    options=UnboundedOptions,
    build=build,
)
