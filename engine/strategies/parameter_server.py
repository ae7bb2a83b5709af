"""parameter-server: MXNet's KVStore. Layers leave when ready; servers notify; workers pull.

Update rule: shard j updates its keys when all workers' gradients are there: w <- update(w, sum_i g_i). Layers over
`split_over` elements are split over all shards, evenly unless hosts' ports differ. Smaller ones live on one shard,
chosen by load (papers 004, section 4.1, which says "randomly"). A worker pulls a layer when every part of it has been
notified. Bytes: each worker sends and receives |W| per step, less what its own shard holds when shards stand beside
workers. Loses to p3 where heavy late layers hold up the first ones (papers 004, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import ServerOptions, at_least_one


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """Options of the KVStore-like parameter server."""

    split_over: int = 1_000_000
    """Layers with more elements than this are split over all shards (MXNET_KVSTORE_BIGARRAY_BOUND)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("split_over", self.split_over, "elements")


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Whole layers, when ready, first come first served, notify and pull."""
    return uniform(
        "parameter-server",
        model,
        servers=options.shards(cluster, options.split_over),
        exchange="parameter-server",
        update=options.update,
        **options.travels,
        order=Order(unit="layer", depart="when-ready", rank="fifo", returns="notify-pull"),
    )


STRATEGY = Strategy(
    name="parameter-server",
    summary="Layers leave as they are ready to N server shards, which notify; workers then pull (MXNet's KVStore).",
    loses_when="heavy late layers (VGG's fc6) sit in front of the first layers that the next forward pass needs.",
    source="papers 004 section 4.1, papers 001 (N sharded parameter servers)",
    proof="exact",
    options=Options,
    build=build,
)
