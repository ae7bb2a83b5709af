"""What strategies share whose workers do not wait for one another: servers, and how contributions travel to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.consistency.asynchronous import AsynchronousSettings
from engine.plan.cluster import Cluster
from engine.plan.consistency import Consistency
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.base import uniform
from engine.strategies.options import ShardOptions, at_least_one, slice_size


@dataclass(frozen=True, kw_only=True)
class AsynchronousOptions(ShardOptions):
    """Where the server shards are, and how gradients travel to them."""

    slice_size: int | Literal["auto"] = "auto"
    """Elements of a slice, at most. `auto`: 50,000 (papers 004, section 5.6) or more, from what a message costs on this
    machine and the rate of the link, and the plan says why."""
    rank: Literal["priority", "fifo"] = "priority"
    """`priority`: what the next forward pass needs first goes first, as in p3; `fifo`: first come, first served."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.slice_size, int):
            at_least_one("slice_size", self.slice_size, "elements")

    def drifting(
        self, strategy: str, model: ModelDescription, cluster: Cluster, consistency: Consistency
    ) -> Plan:
        """Slices to servers that update, and push the answer back to who contributed."""
        servers = self.shards(cluster)
        size, reasons = slice_size(self.slice_size, model, cluster, servers.count, self.way)
        plan = uniform(
            strategy,
            model,
            servers=servers,
            exchange="parameter-server",
            update="server",
            **self.travels,
            order=Order(unit="slice", size=size, depart="when-ready", rank=self.rank, returns="push"),
        )
        return replace(plan, consistency=consistency, reasons=reasons)


@dataclass(frozen=True, kw_only=True)
class UnboundedOptions(AsynchronousOptions):
    """The same, and whether a worker waits for its own contributions."""

    own_writes: bool = True
    """Whether a worker waits, before a step, for the answer to its last contribution. False: it goes on with the answer
    to the one before, so that a step's exchange may take as long as the next step; it needs a second copy of the
    parameters, and a gradient may be computed on parameters from before the worker's own last update."""

    def asynchronous(self, strategy: str, model: ModelDescription, cluster: Cluster, scaling: str) -> Plan:
        """Each contribution is applied when it arrives, by the rule `scaling`."""
        consistency = AsynchronousSettings(scaling=scaling, own_writes=None if self.own_writes else False)
        return self.drifting(strategy, model, cluster, consistency)
