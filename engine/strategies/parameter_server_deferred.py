"""parameter-server-deferred: TensorFlow's behaviour. Gradients leave when ready; parameters are pulled at the
beginning of the next step.

Update rule and bytes as parameter-server. What differs is when the answers travel: all pulls are issued when
the next forward pass begins, so they never overlap backward (papers 004, section 3: the network idles between).
"""

from __future__ import annotations

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.parameter_server import Options


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Whole layers, when ready, first come first served, pulled when the next forward pass begins."""
    return uniform(
        "parameter-server-deferred",
        model,
        servers=options.shards(cluster, options.split_over),
        exchange="parameter-server",
        update=options.update,
        **options.travels,
        order=Order(unit="layer", depart="when-ready", rank="fifo", returns="deferred-pull"),
    )


STRATEGY = Strategy(
    name="parameter-server-deferred",
    summary="As parameter-server, but workers pull all parameters when their next step begins (TensorFlow).",
    loses_when="the answers could have travelled during backward, which is nearly always.",
    source="papers 004 sections 2 and 5.3 (the TensorFlow baseline)",
    proof="exact",
    options=Options,
    build=build,
)
