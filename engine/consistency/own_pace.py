"""own-pace: workers train at their own pace, and take one another's updates as they come.

Update rule: worker i takes a step of its own optimizer on its own samples, from w_i to w_i'. What it sends, to all
others and itself, is u = Q(a_i (w_i' - w_i) + e), where a_i is its share of the step's samples, Q what the codec makes
of it, and e what that has left out so far. It goes on from w_i + u + what others have sent by then. So a step's worth
of all workers' updates is one step of synchronous SGD where nobody is late and nothing is left out; with other
optimizers each worker's moments are of its own gradients. Learning rate, decay and momentum are in what is sent, so
none of them is applied twice. What a model writes to its own parameters is in it, too.
Each worker's loss is the mean over its own samples. Batch statistics stay local, and worker 0 measures its own model.
When all have ended, each takes what it has not taken yet, and all hold the same, to rounding. Who has ended waits for
the others as long as one of them goes on.
Bytes: those of the exchange in every step. Memory: one more copy of the parameters, and the difference that travels.
Loses where an update is late by many steps, as with a slow link, and at the start of training, where papers 001 report
that convergence suffers: updates of many workers add up to large steps, which a lower learning rate at first makes
smaller (`schedule`).
Source: papers 001 (decentralized asynchronous SGD), after Strom 2015: what is quantized is the update and what is left
of earlier ones. Deviation: workers are weighed by their samples, so that n of them do not take n times one's step.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.consistency.asynchronous import Asynchronous
from engine.consistency.average import Average
from engine.consistency.policy import Policy
from engine.errors import UserError
from engine.plan.consistency import Alone


@dataclass(frozen=True, kw_only=True)
class OwnPaceSettings(Alone):
    """Those of own-pace: there is nothing to set."""

    mode: str = "own-pace"
    period: int | None = 1
    """An update leaves after every step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period != 1:
            raise UserError(
                "period", self.period, f"an update leaves after every step under {self.mode}", "Use 1"
            )
        self.without(
            "optimizer_state",
            "state",
            "learning_rate_rule",
            "warm_up_steps",
            "outer",
            "fragments",
            "delay",
            "mixing",
        )


class OwnPace(Average):
    """An update after every step, which waits for nobody's."""

    settings = OwnPaceSettings
    least_workers = Asynchronous.least_workers
    least_set_by = Asynchronous.least_set_by

    @staticmethod
    def of(settings: Alone, workers: int) -> Policy:
        """See `engine/consistency/__init__.py`."""
        return Asynchronous()

    def holds_common(self, fragment: int, step: int) -> bool:
        """What a worker holds is the best that it can know: it meets nobody to ask for more."""
        return True
