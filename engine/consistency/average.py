"""average: workers train alone and average every k steps.

Update rule: from common parameters w, worker i takes k steps of its own optimizer on its own samples and arrives at
w_i; then w <- w + outer(sum_i a_i (w_i - w)), where a_i is its share of the samples since the last average and `outer`
is the identity unless the plan names an outer optimizer. What travels is a_i (w_i - w), over any exchange that sums.
The last step of a job is followed by an average, too, whatever the period. Where the plan says so the optimizer's state
is averaged in the same way (its count of steps to a whole number); else each worker keeps its own.
Each worker's loss is the mean over its own samples. Batch statistics stay local, as in every strategy. Between two
averages an evaluation, or the state that is saved, holds the mean that plain averaging would give; training goes on
from each worker's own parameters.
With period 1, plain SGD and no outer optimizer this is synchronous SGD: sum_i a_i (w - rate g_i) is w - rate g.
Linear rule: the learning rate times the number of workers, after a warm-up in which it grows evenly from the job's own.
Bytes: those of the exchange with |W| (and the state) once in k steps. Memory: one more copy of the parameters.
Loses where workers drift so far in k steps that their mean is worse than each. A worker that is further behind at an
average than a launch's deadline (`Launch.deadline_s`, ten minutes) ends the job.
Source: papers 001 (parameter averaging) and 002, section 3.2; warm-up after Goyal et al. 2017; outer steps after
Douillard et al. 2023. Deviations: the papers weigh workers alike; by samples it is the same where shards are equal. We
send differences, papers 002 the parameters themselves: as many bytes, and half precision costs less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from engine.axes.outer import OUTER
from engine.consistency.every_step import EveryStep
from engine.consistency.policy import Policy
from engine.plan.consistency import Alone

if TYPE_CHECKING:
    from engine.consistency.outer.base import OuterOptimizer


@dataclass(frozen=True, kw_only=True)
class AverageSettings(Alone):
    """Those of average."""

    mode: str = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.without("fragments", "delay", "mixing")


class Average:
    """When workers average, how fast they learn in between, and how the averaged step is taken."""

    settings: ClassVar[type[Alone]] = AverageSettings

    def __init__(self, consistency: Alone, *, workers: int, total_steps: int) -> None:
        """`total_steps`: of the job, if no target ends it before."""
        assert consistency.period is not None, "resolve the plan first"
        self.state = consistency.state
        """The tensors of the optimizer's state that are averaged."""
        self._consistency = consistency
        self._period = consistency.period
        self._workers = workers
        self._total_steps = total_steps

    @staticmethod
    def of(settings: Alone, workers: int) -> Policy:
        """See `engine/consistency/__init__.py`: at every average, workers wait for one another."""
        return EveryStep(workers)

    @staticmethod
    def check(settings: Alone, workers: int) -> None:
        """See there: the settings do, when they are made."""

    def leaves(self, fragment: int, step: int) -> bool:
        """Whether what has changed in the layers of `fragment` is sent after `step` (0 first)."""
        return (step + 1) % self._period == 0 or step + 1 == self._total_steps

    def arrives(self, fragment: int, step: int) -> int | None:
        """After which step left what is taken before the step behind `step`; None where nothing is."""
        return step if self.leaves(fragment, step) else None

    def mixing(self, step: int) -> float:
        """The share of its own parameters that a worker keeps when it takes an average after `step`."""
        return 0.0

    def holds_common(self, fragment: int, step: int) -> bool:
        """Whether all workers hold the same parameters after `step`. After -1 they do: all begin with the same."""
        return step < 0 or (self.arrives(fragment, step) is not None and self.mixing(step) == 0)

    def rate_factor(self, step: int) -> float:
        """What the learning rate of `step` is multiplied by."""
        if self._consistency.learning_rate_rule != "linear":
            return 1.0
        warm_up = self._consistency.warm_up_steps or 0
        return 1.0 + (self._workers - 1) * (min(1.0, step / warm_up) if warm_up else 1.0)

    def outer(self) -> OuterOptimizer:
        """A new outer optimizer; plain averaging is SGD with rate 1."""
        chosen = self._consistency
        rate = 1.0 if chosen.outer_learning_rate is None else chosen.outer_learning_rate
        found: OuterOptimizer = OUTER[chosen.outer or "sgd"].load()(rate, chosen.outer_momentum or 0.0)
        return found
