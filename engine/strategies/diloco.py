"""diloco: local SGD with an outer optimizer. Workers train alone; their averaged step is taken with momentum.

Update rule: with d = sum_i a_i (w_i - w) after k steps of the job's optimizer on every worker,
v <- m v + d, w <- w + rate (d + m v) (Nesterov, rate 0.7, m 0.9). With `outer: sgd`, rate 1 and no momentum it is
parameter-averaging, bit for bit.
Bytes: as parameter-averaging; the outer optimizer adds none, because every worker takes the same outer step by itself.
Memory: two more copies of the parameters on each worker.
Source: Douillard et al. 2023 (DiLoCo), the modern descendant of papers 001's parameter averaging. Deviation: workers
are weighed by their samples, which is the paper's mean where shards are equal. Period: 500 steps, as there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from engine.plan.cluster import Cluster
from engine.plan.consistency import Alone
from engine.plan.description import ModelDescription
from engine.plan.plan import Plan
from engine.strategies.averaging import AveragingOptions
from engine.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class Options(AveragingOptions):
    """Options of diloco."""

    outer: str = "nesterov"
    """The outer optimizer: `nesterov` or `sgd`."""
    outer_learning_rate: float = 0.7
    """Its learning rate; 1 with `sgd` and no momentum is plain averaging."""
    outer_momentum: float = 0.9
    """Its momentum, from 0 to below 1; `nesterov` needs one."""

    USUAL_PERIOD: ClassVar[int] = 500

    def consistency(self) -> Alone:
        """Average with this period and outer optimizer. Raises UserError."""
        return replace(
            super().consistency(),
            outer=self.outer,
            outer_learning_rate=self.outer_learning_rate,
            outer_momentum=self.outer_momentum,
        )


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Averages over the chosen exchange, taken by the outer optimizer."""
    return options.averaged("diloco", model, cluster)


STRATEGY = Strategy(
    name="diloco",
    summary="Workers train alone for long; an outer optimizer with Nesterov's momentum takes their averaged step.",
    loses_when="the network is fast enough for every step, or the job too short for many averages.",
    source="Douillard et al. 2023 (DiLoCo); compare papers 001",
    proof="convergent",
    options=Options,
    build=build,
)
