"""What strategies share whose workers train alone and average: how often, what, and over which exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from engine.consistency.average import AverageSettings
from engine.plan.cluster import Cluster
from engine.plan.consistency import Alone
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan, Servers
from engine.strategies.base import uniform
from engine.strategies.options import RoundsOptions


@dataclass(frozen=True, kw_only=True)
class AveragingOptions(RoundsOptions):
    """How often workers average, and how their differences meet."""

    exchange: Literal[
        "ring-allreduce",
        "tree-allreduce",
        "recursive-halving-doubling",
        "native",
        "central-reducer",
        "parameter-server",
    ] = "ring-allreduce"
    """How the workers' differences meet. `central-reducer`: one process beside worker 0, as the papers' driver;
    `parameter-server`: a shard beside every worker. `bucket_bytes` has no effect on these two."""
    period: int | None = None
    """Steps between two averages. Null: the strategy's own (see there), unless `period_epochs` is given."""
    period_epochs: float | None = None
    """Passes over the training data between two averages, in place of `period`."""
    optimizer_state: bool = False
    """Average the optimizer's state (momentum, moments), too: two or three times the bytes."""

    USUAL_PERIOD: ClassVar[int] = 10
    """Steps, where the options say nothing; papers 001 report 10 to 20 as still acceptable."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.consistency()  # so that what is wrong is named as an option

    def consistency(self) -> Alone:
        """Average with this period. Raises UserError."""
        return averaging(
            self.period, self.period_epochs, self.USUAL_PERIOD, optimizer_state=self.optimizer_state
        )

    def averaged(self, strategy: str, model: ModelDescription, cluster: Cluster) -> Plan:
        """Whole layers to servers, or buckets and slices into an allreduce, as their last update is done."""
        if self.exchange in ("central-reducer", "parameter-server"):
            plan = uniform(
                strategy,
                model,
                servers=Servers(count=1 if self.exchange == "central-reducer" else cluster.workers),
                exchange=self.exchange,
                **self.travels,
                order=Order(unit="layer", depart="when-ready", rank="fifo", returns="push"),
            )
        else:
            plan = self.plan(strategy, model, cluster, exchange=self.exchange, depart="when-ready")
        return replace(plan, consistency=self.consistency())


def averaging(period: int | None, epochs: float | None, usual: int, **settings: Any) -> AverageSettings:
    """Average every `period` steps, or `epochs`; the `usual` steps where neither is given."""
    if period is None and epochs is None:
        period = usual
    return AverageSettings(period=period, period_epochs=epochs, **settings)
