"""parameter-slicing: P3 without its priorities. Layers are cut into slices that travel and are updated apart.

Update rule: as parameter-server, slice by slice. A slice goes to the shard that is the least full, for its share where
hosts' ports differ. Deviation: the paper deals round robin (papers 004, section 4.2), which fills shards unequally
where layers are smaller than a slice: with slices of 200,000 elements one of four has 0.28 of ResNet-50. The updated
slice is pushed back at once, so sending, updating and receiving of one heavy layer overlap (papers 004, Figure 6).
Bytes as parameter-server. Loses to p3 where rank matters; loses to whole layers where slices are so small that
the cost of each message dominates (papers 004, section 5.6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import ServerOptions, at_least_one, slice_size


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """Options of the strategies that slice."""

    slice_size: int | Literal["auto"] = "auto"
    """Elements per slice at most; 50,000 is the paper's best value (papers 004, section 5.6). `auto`: so many or more,
    from what a message costs on this machine and the rate of the link, and the plan says why."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.slice_size, int):
            at_least_one("slice_size", self.slice_size, "elements")


def sliced(strategy: str, rank: str, model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Slices, when ready, pushed back, in the given rank: what slicing and p3 share."""
    servers = options.shards(cluster)
    size, reasons = slice_size(options.slice_size, model, cluster, servers.count, options.way)
    plan = uniform(
        strategy,
        model,
        servers=servers,
        exchange="parameter-server",
        update=options.update,
        **options.travels,
        order=Order(unit="slice", size=size, depart="when-ready", rank=rank, returns="push"),
    )
    return replace(plan, reasons=reasons)


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Slices, when ready, first come first served, pushed back."""
    return sliced("parameter-slicing", "fifo", model, cluster, options)


STRATEGY = Strategy(
    name="parameter-slicing",
    summary="Heavy layers are cut into slices, so that sending, updating and receiving them overlap.",
    loses_when="no layer is heavy (ResNet-50, Inception-v3), or slices are too small for the network.",
    source="papers 004 sections 3 and 4.2 (parameter slicing alone, Figure 7)",
    proof="exact",
    options=Options,
    build=build,
)
