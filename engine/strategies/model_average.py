"""model-average: PAI's model average. Workers pull the global parameters, train k steps, push; servers average.

Update rule: as parameter-averaging, with the learning rate times the number of workers n (the linear rule), because an
average divides each worker's contribution by n; `warm_up_steps` lets the rate grow to that.
Three stages, as the paper's three graphs: pull, train, push and average. Whole layers leave after the last backward
pass of a period, and the answers are asked for when the next one begins; nothing overlaps the backward pass.
Bytes: each worker sends and receives |W| once in k steps, less what its own shard holds where shards stand beside
workers.
Source: papers 002, section 3.2 and appendix A.3 (every 10 steps for ResNet-32, every epoch for a translation network).
Deviations: the sums of differences come back and every worker adds them, where the paper's servers hold the parameters;
the warm-up is that of the rule's own source (Goyal et al. 2017), which papers 002 do not mention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.plan.cluster import Cluster
from engine.plan.consistency import Alone
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan
from engine.strategies.averaging import averaging
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import ServerOptions, at_least_one

PERIOD = 10
"""Steps: the paper's for ResNet-32."""


@dataclass(frozen=True, kw_only=True)
class Options(ServerOptions):
    """Options of model-average."""

    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs: between averages that is on the workers, whatever else is asked for is refused."""
    split_over: int = 1_000_000
    """Layers with more elements than this are split over all shards."""
    period: int | None = None
    """Steps between two averages. Null: 10, unless `period_epochs` is given."""
    period_epochs: float | None = None
    """Passes over the training data between two averages, in place of `period`."""
    optimizer_state: bool = False
    """Average the optimizer's state (momentum, moments), too: two or three times the bytes."""
    learning_rate_rule: Literal["constant", "linear"] = "linear"
    """`linear`: the learning rate times the number of workers; `constant`: as the job says it."""
    warm_up_steps: int = 0
    """Steps in which the learning rate grows to its multiple. 0: at once. Needs the linear rule."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one("split_over", self.split_over, "elements")
        self.consistency()  # so that what is wrong is named as an option

    def consistency(self) -> Alone:
        """Average with this period and learning-rate rule. Raises UserError."""
        return averaging(
            self.period,
            self.period_epochs,
            PERIOD,
            optimizer_state=self.optimizer_state,
            learning_rate_rule=self.learning_rate_rule,
            warm_up_steps=self.warm_up_steps,
        )


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Whole layers to their shards after backward, pulled when the next period begins."""
    plan = uniform(
        "model-average",
        model,
        servers=options.shards(cluster, options.split_over),
        exchange="parameter-server",
        update=options.update,
        **options.travels,
        order=Order(unit="layer", depart="after-backward", rank="fifo", returns="deferred-pull"),
    )
    return replace(plan, consistency=options.consistency())


STRATEGY = Strategy(
    name="model-average",
    summary="Pull, train k steps, push and average on servers, with the learning rate times the number of workers.",
    loses_when="that learning rate is too high at the start (use a warm-up), or workers drift apart in k steps.",
    source="papers 002 (PAI), section 3.2",
    proof="convergent",
    options=Options,
    build=build,
)
