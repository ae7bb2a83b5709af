"""central-reduce: naive data parallelism. Every worker sends every gradient to one reducer after backward.

Update rule: w <- update(w, sum_i g_i) on the reducer, which sends w back to all (papers 000, section 3.2:
"2 gradient pull + 2 weight push" for two workers; papers 003, the single-reducer baseline).
Bytes per step on the wire: 2 N |W| with a dedicated reducer, 2 (N-1) |W| beside a worker, all of them through
the reducer's port. Memory: one copy of parameters and optimizer state on the reducer.
With `update: worker` the reducer answers with sums: papers 000's Algorithm 1 (reduce gradients to worker 0, broadcast
them), the baseline of late-multiply.
Deviation: the paper averages; we sum gradients of losses already divided by the global batch, which is equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.plan import Order, Plan, Servers
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import AnswerOptions


@dataclass(frozen=True, kw_only=True)
class Options(AnswerOptions):
    """Options of central-reduce."""

    where: Literal["beside", "dedicated"] = "beside"
    """`beside`: the reducer lives in worker 0's process; `dedicated`: in a process of its own."""
    update: Literal["auto", "worker", "server"] = "auto"
    """Where the optimizer runs. `auto`: on the reducer unless something needs all gradients at once."""


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Whole layers, after backward, first come first served."""
    return uniform(
        "central-reduce",
        model,
        servers=Servers(count=1, where=options.where),
        exchange="central-reducer",
        update=options.update,
        **options.travels,
        order=Order(unit="layer", depart="after-backward", rank="fifo", returns="push"),
    )


STRATEGY = Strategy(
    name="central-reduce",
    summary="Naive data parallelism: one reducer gathers every gradient after backward and answers everyone.",
    loses_when="there are more than two workers, or the network matters at all: the reducer's port carries everything.",
    source="papers 000 section 3.2 (naive data parallelism), 003 (single reducer)",
    proof="exact",
    options=Options,
    build=build,
)
