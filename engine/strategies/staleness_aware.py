"""staleness-aware: as async-sgd, and the older the version that a gradient was computed on, the smaller its step.

Update rule: w <- update(w, g_r(w_s)) with the learning rate over max(1, s), s being the updates of the unit since that
version (`engine/consistency/asynchronous.py`), whatever the optimizer. Bytes as async-sgd.
Source: papers 001, after Zhang et al. 2016 ("Staleness-aware async-SGD"). Deviation: staleness is counted for each unit
by itself.
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.base import Strategy
from engine.strategies.drifting import UnboundedOptions


def build(model: ModelDescription, cluster: Cluster, options: UnboundedOptions) -> Plan:
    """As async-sgd, each update's rate over its staleness."""
    return options.asynchronous("staleness-aware", model, cluster, "staleness")


STRATEGY = Strategy(
    name="staleness-aware",
    summary="As async-sgd; an update's learning rate is divided by its gradient's staleness.",
    loses_when="workers are many and equally fast: each is n - 1 updates late, and training slows down.",
    source="papers 001 (staleness-aware asynchronous SGD)",
    proof="convergent",
    options=UnboundedOptions,
    build=build,
)
